use super::*;

fn strike(worker: &str) -> Strike {
    Strike {
        worker: worker.to_owned(),
        at_point: true,
    }
}

/// A run in which every fault met data and every promise held.
fn good() -> (Facts, Played) {
    let facts = Facts {
        committed: 10,
        rolled_back: 2,
        published: 10,
        applied: 10,
        parked: 1,
        flowed: 5,
        redriven: 1,
        lost_entries: 3,
        refilled: 3,
        taken: ["r1", "r2", "c1"].map(|name| (name.to_owned(), 4)).into(),
        planned: [("r1".to_owned(), 7)].into(),
        ..Facts::default()
    };
    let played = Played {
        killed: vec![strike("r1"), strike("c1")],
        woken: Some(strike("r2")),
        drained: vec![("r3".to_owned(), true)],
    };
    (facts, played)
}

fn outcomes(change: impl FnOnce(&mut Facts, &mut Played), finished: bool) -> Vec<(&'static str, Outcome)> {
    let (mut facts, mut played) = good();
    change(&mut facts, &mut played);
    let promises = judge(&facts, &played, finished);
    assert!(
        promises
            .iter()
            .all(|p| p.reason.is_some() == (p.outcome == Outcome::NotShown))
    );
    let not_kept = promises.iter().filter(|p| p.outcome != Outcome::Kept);
    not_kept.map(|p| (p.promise, p.outcome)).collect()
}

#[test]
fn a_run_without_a_flaw_keeps_everything() {
    assert_eq!(outcomes(|_, _| {}, true), []);
}

#[test]
fn a_fault_that_met_nothing_is_not_shown_and_breaks_nothing() {
    type Change = fn(&mut Facts, &mut Played);
    let cases: [(Change, &str); 9] = [
        (|f, _| f.rolled_back = 0, "rolled back is never published"),
        (
            |_, p| p.killed[0].at_point = false,
            "a kill costs one take-over, not an event",
        ),
        (
            |f, _| f.planned.clear(),
            "a kill costs one take-over, not an event",
        ),
        (
            |f, _| f.taken.retain(|name, _| name != "c1"),
            "a kill costs one take-over, not an event",
        ),
        (
            |_, p| {
                p.woken = Some(Strike {
                    worker: "r2".to_owned(),
                    at_point: false,
                });
            },
            "a stale relay appends nothing",
        ),
        (
            |f, _| f.taken.retain(|name, _| name != "r2"),
            "a stale relay appends nothing",
        ),
        (
            |f, _| (f.lost_entries, f.refilled) = (0, 0),
            "a stream that loses its tail is refilled",
        ),
        (|f, _| f.flowed = 0, "a poison event holds back its key only"),
        (|_, p| p.drained.clear(), "a drain is bounded and clean"),
    ];
    for (change, promise) in cases {
        assert_eq!(outcomes(change, true), [(promise, Outcome::NotShown)]);
    }
}

#[test]
fn what_the_databases_deny_is_broken_whether_a_fault_met_data_or_not() {
    type Change = fn(&mut Facts, &mut Played);
    let cases: [(Change, &[&str]); 9] = [
        (
            |f, _| (f.waiting, f.rolled_back) = (1, 2),
            &["committed is published"],
        ),
        (|f, _| f.ghosts = 1, &["rolled back is never published"]),
        (
            |f, _| (f.lost, f.applied) = (1, 9),
            &[
                "committed is published",
                "nothing lost, nothing doubled",
                "a kill costs one take-over, not an event",
            ],
        ),
        (|f, _| f.differing = 1, &["in order per key"]),
        (|f, _| f.gaps = 1, &["in order per key"]),
        (
            |f, p| (f.stale, p.woken) = (1, None),
            &["a stale relay appends nothing"],
        ),
        (
            |f, _| f.refilled = 2,
            &["a stream that loses its tail is refilled"],
        ),
        (|f, _| f.parked = 2, &["a poison event holds back its key only"]),
        (|f, _| f.owned = 1, &["a drain is bounded and clean"]),
    ];
    for (change, promises) in cases {
        let expected: Vec<_> = promises.iter().map(|p| (*p, Outcome::Broken)).collect();
        assert_eq!(outcomes(change, true), expected);
    }
}

#[test]
fn a_story_that_ended_early_breaks_nothing_by_being_incomplete() {
    let early = |f: &mut Facts, p: &mut Played| {
        *f = Facts {
            committed: 10,
            published: 4,
            applied: 3,
            waiting: 6,
            on_the_way: 7,
            lost_entries: 2,
            ..Facts::default()
        };
        *p = Played::default();
    };
    let outcomes = outcomes(early, false);
    assert!(outcomes.iter().all(|(_, outcome)| *outcome == Outcome::NotShown));
    assert_eq!(outcomes.len(), 8, "{outcomes:?}");
}
