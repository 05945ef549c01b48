//! The inbox suite over the memory store.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use std::time::Duration;

use tidegate_conformance::inbox::memory::Memory;
use tidegate_conformance::inbox::{Case, Feed, Plan, World};
use tidegate_conformance::{inbox, inbox_cases};
use tidegate_core::inbox::Options;
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::transaction::{Commit, InboxDb};
use tidegate_core::memory::inbox::CommitFault;

macro_rules! suite {
    ($($group:ident :: $case:ident),* $(,)?) => {
        $(#[test] fn $case() { inbox::$group::$case(&Memory::new()); })*
    };
}
inbox_cases!(suite);

/// C1 with unknown outcomes: a fault at every commit in turn, of every kind; the same batch is given again.
#[test]
fn c082_a_fault_at_any_commit_neither_loses_nor_repeats() {
    for kind in [
        CommitFault::Refused,
        CommitFault::ReplyLost,
        CommitFault::RequestLost,
    ] {
        for at in 1..40 {
            for careful in [false, true] {
                fault_at(at, kind, careful);
            }
        }
    }
}

fn fault_at(at: u64, kind: CommitFault, careful: bool) {
    let world = Memory::new();
    let case = Case::start(&world);
    let entries = Feed::default().events(0, &["a", "bad", "b", "bad", "c", "worse", "a"]);
    world.inbox.fault_at(at, kind);
    let plan = Plan::poison(&["bad", "worse"]);
    let mut pauses = 0;
    for _ in 0..3 {
        let applied = if careful {
            case.apply_carefully(plan.clone(), Options::default(), &entries)
        } else {
            case.apply(plan.clone(), &entries)
        };
        pauses += u32::from(applied.pause.is_some());
    }
    for round in 1..4 {
        let later = Duration::from_secs(60 * round);
        pauses += u32::from(
            case.retry(Plan::fine(), Options::default(), later)
                .pause
                .is_some(),
        );
    }
    let reached = world.inbox.commits() >= at;
    // A withdrawal that fails is no pause of its own.
    assert!(
        pauses == u32::from(reached),
        "fault {at} {kind:?}: {pauses} pauses"
    );
    let snapshot = world.snapshot();
    snapshot.check_order();
    assert_eq!(snapshot.effects.len(), entries.len(), "fault {at} {kind:?}");
    assert!(snapshot.parked.is_empty() && snapshot.attempts.is_empty());
}

/// A commit that others overtook is refused, and the batch can be given again.
#[test]
fn c083_a_transaction_overtaken_by_another_is_refused() {
    let world = Memory::new();
    let tx = block_on(world.inbox.begin()).unwrap();
    Case::start(&world);
    assert!(matches!(block_on(world.inbox.commit(tx)), Commit::Refused(_)));
}
