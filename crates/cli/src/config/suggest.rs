//! "Did you mean": the nearest accepted spelling, or none.

/// The candidate nearest to `given`, when it is near enough to be what was meant.
pub(crate) fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let given = given.to_ascii_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&given, candidate);
    let best = candidates
        .into_iter()
        .min_by_key(|candidate| distance(candidate))?;
    let typo = distance(best) <= (best.len() / 3).max(1);
    let cut_short = given.len() >= 3 && best.starts_with(&given);
    (typo || cut_short).then(|| best.to_owned())
}
