//! The plan of a lane as one blob: a little-endian 64-bit seq for each number after the last settled one. Zero is a
//! void marker: `seq` starts at one.

/// Seqs in order of n.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan(pub(super) Vec<i64>);

impl Plan {
    pub(super) const VOID: i64 = 0;

    pub(super) fn read(bytes: &[u8]) -> Self {
        let seqs = bytes.chunks_exact(8).map(|chunk| {
            let mut seq = [0; 8];
            seq.copy_from_slice(chunk);
            i64::from_le_bytes(seq)
        });
        Self(seqs.collect())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|seq| seq.to_le_bytes()).collect()
    }

    /// Rows of the plan, without its void markers.
    pub(super) fn rows(seqs: &[i64]) -> impl Iterator<Item = i64> + '_ {
        seqs.iter().copied().filter(|seq| *seq != Self::VOID)
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_plan_survives_its_blob() {
        let plan = Plan(vec![1, Plan::VOID, i64::MAX]);
        assert_eq!(Plan::read(&plan.bytes()), plan);
        assert_eq!(Plan::rows(&plan.0).collect::<Vec<_>>(), [1, i64::MAX]);
        assert_eq!(Plan::read(&[]), Plan::default());
    }
}
