//! Who owns which lanes.

use std::task::{Context, Poll, Waker};

use tidegate_core::inbox::Position;
use tidegate_core::inbox::block::block_on;
use tidegate_core::lease::Token;
use tidegate_core::stream::EntryId;

use super::{Case, Feed, LANES, ME, OTHER, Plan, TTL, World, hold, lane};

/// Registering again is what every start does.
pub fn c060_register_never_changes_a_position(world: &dyn World) {
    let case = Case::start(world);
    case.apply(Plan::fine(), &Feed::default().events(0, &["a"]));
    let before = world.snapshot();
    let lanes = vec![
        (lane(0), Position::EARLIEST),
        (
            lane(9),
            Position {
                hw: 7,
                ..Position::EARLIEST
            },
        ),
    ];
    block_on(world.inbox().register(lanes)).unwrap();
    let after = world.snapshot();
    assert_eq!(after.lanes[..4], before.lanes[..]);
    let new = &after.lanes[4];
    assert_eq!((new.slot, new.position.hw, new.ledger.start), (9, 7, 7));
    after.check();
}

/// Fair share, heartbeats and expiry, as `lane::share` has them.
pub fn c061_a_hold_follows_the_rule(world: &dyn World) {
    let case = Case::start(world);
    let second = hold(world, OTHER, vec![]);
    assert_eq!(
        (second.members, second.lanes, second.owned.len()),
        (2, u32::from(LANES), 0)
    );
    let give = vec![(lane(2), case.tokens[2]), (lane(3), case.tokens[3])];
    assert_eq!(hold(world, ME, give).owned.len(), 2);
    let second = hold(world, OTHER, vec![]);
    let slots: Vec<u16> = second.owned.iter().map(|owned| owned.lane.slot).collect();
    assert_eq!(slots, vec![2, 3]);
    world.pass_time(TTL + TTL / 2);
    let first = hold(world, ME, vec![]);
    assert_eq!(
        (first.members, first.owned.len()),
        (1, 4),
        "the other one is gone"
    );
}

/// A drained lane is clean, an abandoned one is not; either way the token grows.
pub fn c062_release_is_clean_and_expiry_is_not(world: &dyn World) {
    let case = Case::start(world);
    hold(world, OTHER, vec![]);
    hold(world, ME, vec![(lane(0), case.tokens[0])]);
    let taken = hold(world, OTHER, vec![]);
    assert!(taken.owned[0].state.clean && taken.owned[0].token > case.tokens[0]);
    assert!(!world.snapshot().lanes[0].position.clean, "cleared while held");
    world.pass_time(TTL * 2);
    let crashed = hold(world, Token(3).into_nonce(), vec![]);
    assert_eq!(crashed.owned.len(), 4);
    assert!(crashed.owned.iter().all(|owned| !owned.state.clean));
}

trait IntoNonce {
    fn into_nonce(self) -> tidegate_core::lease::Nonce;
}

impl IntoNonce for Token {
    fn into_nonce(self) -> tidegate_core::lease::Nonce {
        tidegate_core::lease::Nonce(u128::from(self.0))
    }
}

/// Idle lanes' cursors.
pub fn c063_cursors_move_forward_under_the_fence(world: &dyn World) {
    let case = Case::start(world);
    let at = |slot: u16, token: Token, id: u64| vec![(lane(slot), token, EntryId(0, id))];
    let moved = |member, cursors| block_on(world.inbox().move_cursors(member, cursors)).unwrap();
    assert_eq!(moved(ME, at(0, case.tokens[0], 5)), 1);
    assert_eq!(moved(ME, at(0, case.tokens[0], 4)), 0, "backwards");
    assert_eq!(
        moved(ME, at(0, Token(case.tokens[0].0 + 1), 9)),
        0,
        "another token"
    );
    assert_eq!(moved(OTHER, at(0, case.tokens[0], 9)), 0, "another member");
    assert_eq!(world.snapshot().lanes[0].position.cursor, EntryId(0, 5));
}

/// A zombie's release must not free its successor's lane.
pub fn c064_a_stale_release_releases_nothing(world: &dyn World) {
    let old = Case::start(world);
    world.pass_time(TTL * 2);
    let new = Case::take_over(world, OTHER);
    hold(
        world,
        ME,
        vec![(lane(0), old.tokens[0]), (lane(1), new.tokens[1])],
    );
    let held = hold(world, OTHER, vec![]);
    let tokens: Vec<Token> = held.owned.iter().map(|owned| owned.token).collect();
    assert_eq!(tokens, new.tokens);
}

/// A waiting worker hears of changes.
pub fn c065_a_change_rings_the_bell(world: &dyn World) {
    let case = Case::start(world);
    let inbox = world.inbox();
    let mut rung = inbox.rung();
    let mut context = Context::from_waker(Waker::noop());
    let first = rung.as_mut().poll(&mut context);
    case.apply(Plan::fine(), &Feed::default().events(0, &["a"]));
    if first == Poll::Pending {
        block_on(rung);
    }
}
