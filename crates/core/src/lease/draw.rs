//! The machines' only source of chance: two `SplitMix64` streams seeded by the driver, so that equal seeds give equal
//! runs.

use std::time::Duration;

use super::Nonce;

/// One stream for each half of a nonce, so that all 128 bits of the seed count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Draw {
    high: u64,
    low: u64,
}

impl Draw {
    pub(crate) fn new(seed: Nonce) -> Self {
        Self {
            high: half(seed.0 >> 64),
            low: half(seed.0),
        }
    }

    pub(crate) fn nonce(&mut self) -> Nonce {
        Nonce(u128::from(split_mix(&mut self.high)) << 64 | u128::from(split_mix(&mut self.low)))
    }

    /// Between nine tenths of `whole` and `whole`: never later than asked for.
    pub(crate) fn jitter(&mut self, whole: Duration) -> Duration {
        let thousandths = u32::try_from(split_mix(&mut self.low) % 101).unwrap_or(0);
        whole / 1000 * (1000 - thousandths)
    }

    /// Between zero and `whole`.
    pub(crate) fn below(&mut self, whole: Duration) -> Duration {
        let thousandths = u32::try_from(split_mix(&mut self.low) % 1001).unwrap_or(0);
        whole / 1000 * thousandths
    }
}

fn half(wide: u128) -> u64 {
    u64::try_from(wide & u128::from(u64::MAX)).unwrap_or(0)
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
