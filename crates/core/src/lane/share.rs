//! The rule of [`Hold`] as a pure function: both memory stores run it, and SQL stores are compared with it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::lane::{Held, Hold, LaneId, Owned};
use crate::lease::{Nonce, Token};
use crate::time::Ticks;

/// Lanes one member may claim up to: `ceil(lanes / members)`.
pub fn fair_share(lanes: usize, members: usize) -> usize {
    lanes.div_ceil(members.max(1))
}

/// One member's heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// For people only.
    pub label: String,
    /// How long the heartbeat counts.
    pub ttl: Duration,
    /// When it came, on the store's clock.
    pub seen: Ticks,
}

impl Member {
    /// Whether the heartbeat still counts.
    pub fn is_live(&self, now: Ticks) -> bool {
        now <= self.seen.after(self.ttl)
    }
}

/// One lane's row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row<S> {
    /// The lane.
    pub lane: LaneId,
    /// The current or last token.
    pub token: Token,
    /// The holder, if any; it stays after the lease ran out, until somebody else claims.
    pub owner: Option<Nonce>,
    /// The holder's label, for people.
    pub label: String,
    /// When the lease runs out, on the store's clock.
    pub until: Ticks,
    /// What the store keeps for the lane.
    pub state: S,
}

impl<S> Row<S> {
    /// A lane that nobody has owned.
    pub fn vacant(lane: LaneId, state: S) -> Self {
        Self {
            lane,
            token: Token(0),
            owner: None,
            label: String::new(),
            until: Ticks::default(),
            state,
        }
    }

    /// Whether a write under this member and token is accepted.
    pub fn is_held(&self, member: Nonce, token: Token) -> bool {
        self.owner == Some(member) && self.token == token
    }

    /// Whether the lane may be claimed.
    pub fn is_free(&self, now: Ticks) -> bool {
        self.owner.is_none() || self.until <= now
    }
}

/// What a lane's state does when it changes hands; nothing unless said otherwise.
pub trait Tenancy: Clone {
    /// A new owner got the lane; the reply holds the state as it was before this call.
    fn granted(&mut self) {}

    /// The owner gave the lane up after draining.
    fn released(&mut self) {}
}

impl Tenancy for crate::outbox::LaneState {}

/// The inbox remembers whether the last owner drained: otherwise the next one starts in careful mode.
impl Tenancy for crate::inbox::Position {
    fn granted(&mut self) {
        self.clean = false;
    }

    fn released(&mut self) {
        self.clean = true;
    }
}

/// Performs a [`Hold`] at store time `now`; `rows` are every lane, in order of lane.
///
/// An owner whose lease ran out but whose lane nobody claimed keeps it under the same token: every write compares, so
/// nothing was lost in between.
pub fn apply_hold<S: Tenancy>(
    rows: &mut [Row<S>],
    members: &mut BTreeMap<Nonce, Member>,
    hold: &Hold,
    now: Ticks,
) -> Held<S> {
    heartbeat(members, hold, now);
    release(rows, hold);
    let mut owned = renew(rows, hold, now);
    if !hold.leave {
        let share = fair_share(rows.len(), members.len());
        let wanted = share.saturating_sub(owned.len());
        owned.extend(claim(rows, hold, now, wanted));
        owned.sort_by_key(|owned| owned.lane);
    }
    Held {
        members: count(members.len()),
        lanes: count(rows.len()),
        owned,
    }
}

fn heartbeat(members: &mut BTreeMap<Nonce, Member>, hold: &Hold, now: Ticks) {
    members.retain(|_, member| member.is_live(now));
    if hold.leave {
        members.remove(&hold.member);
        return;
    }
    let member = Member {
        label: hold.label.clone(),
        ttl: hold.ttl,
        seen: now,
    };
    members.insert(hold.member, member);
}

fn release<S: Tenancy>(rows: &mut [Row<S>], hold: &Hold) {
    for (lane, token) in &hold.release {
        let mine = |row: &&mut Row<S>| row.lane == *lane && row.is_held(hold.member, *token);
        if let Some(row) = rows.iter_mut().find(mine) {
            row.owner = None;
            row.state.released();
        }
    }
}

fn renew<S: Tenancy>(rows: &mut [Row<S>], hold: &Hold, now: Ticks) -> Vec<Owned<S>> {
    let mine = rows.iter_mut().filter(|row| row.owner == Some(hold.member));
    mine.map(|row| {
        row.until = now.after(hold.ttl);
        row.label.clone_from(&hold.label);
        owned(row)
    })
    .collect()
}

fn claim<S: Tenancy>(rows: &mut [Row<S>], hold: &Hold, now: Ticks, wanted: usize) -> Vec<Owned<S>> {
    let free = rows.iter_mut().filter(|row| row.is_free(now));
    free.take(wanted)
        .map(|row| {
            row.token = Token::next(row.token, now.as_micros(), Token(0));
            row.owner = Some(hold.member);
            row.label.clone_from(&hold.label);
            row.until = now.after(hold.ttl);
            let owned = owned(row);
            row.state.granted();
            owned
        })
        .collect()
}

fn owned<S: Clone>(row: &Row<S>) -> Owned<S> {
    Owned {
        lane: row.lane,
        token: row.token,
        state: row.state.clone(),
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Position;
    use crate::lane::Lineage;
    use uuid::Uuid;

    const TTL: Duration = Duration::from_secs(10);

    struct World {
        rows: Vec<Row<Position>>,
        members: BTreeMap<Nonce, Member>,
    }

    impl World {
        fn new(lanes: u16) -> Self {
            let lane = |slot| LaneId {
                lineage: Lineage(Uuid::nil()),
                slot,
            };
            let rows = (0..lanes)
                .map(|slot| Row::vacant(lane(slot), Position::EARLIEST))
                .collect();
            Self {
                rows,
                members: BTreeMap::new(),
            }
        }

        fn hold(&mut self, member: u128, release: Vec<(LaneId, Token)>, at: i64) -> Held<Position> {
            self.hold_or_leave(member, release, at, false)
        }

        fn hold_or_leave(
            &mut self,
            member: u128,
            release: Vec<(LaneId, Token)>,
            at: i64,
            leave: bool,
        ) -> Held<Position> {
            let hold = Hold {
                member: Nonce(member),
                label: format!("m{member}"),
                ttl: TTL,
                release,
                leave,
            };
            let now = Ticks::from_micros(at * 1_000_000);
            apply_hold(&mut self.rows, &mut self.members, &hold, now)
        }
    }

    fn pairs(held: &Held<Position>) -> Vec<(LaneId, Token)> {
        held.owned.iter().map(|o| (o.lane, o.token)).collect()
    }

    #[test]
    fn fair_share_rounds_up_and_never_divides_by_zero() {
        assert_eq!(fair_share(64, 3), 22);
        assert_eq!(fair_share(64, 0), 64);
        assert_eq!(fair_share(0, 3), 0);
    }

    #[test]
    fn the_first_member_takes_all_and_the_second_waits_for_a_release() {
        let mut world = World::new(4);
        let a = world.hold(1, vec![], 1);
        assert_eq!(a.owned.len(), 4);
        let b = world.hold(2, vec![], 2);
        assert_eq!((b.members, b.lanes, b.owned.len()), (2, 4, 0));
        let give = pairs(&a)[2..].to_vec();
        let a = world.hold(1, give, 3);
        assert_eq!(a.owned.len(), 2);
        let b = world.hold(2, vec![], 4);
        assert_eq!(b.owned.len(), 2);
        assert!(b.owned.iter().all(|o| o.state.clean), "released after draining");
    }

    #[test]
    fn an_expired_lane_is_claimed_with_a_higher_token_and_is_not_clean() {
        let mut world = World::new(1);
        let a = pairs(&world.hold(1, vec![], 1));
        assert!(
            world.hold(2, vec![], 10).owned.is_empty(),
            "the lease runs until 11"
        );
        let b = world.hold(2, vec![], 12);
        assert!(b.owned[0].token > a[0].1);
        assert!(!b.owned[0].state.clean);
        assert!(
            world.hold(1, a, 13).owned.is_empty(),
            "an old token releases nothing"
        );
    }

    #[test]
    fn an_owner_renews_late_when_nobody_came() {
        let mut world = World::new(1);
        let a = pairs(&world.hold(1, vec![], 1));
        let again = pairs(&world.hold(1, vec![], 100));
        assert_eq!(a, again);
    }

    #[test]
    fn leaving_ends_the_heartbeat_and_claims_nothing() {
        let mut world = World::new(2);
        let a = world.hold(1, vec![], 1);
        let left = world.hold_or_leave(1, pairs(&a), 2, true);
        assert_eq!((left.members, left.owned.len()), (0, 0));
        assert_eq!(world.hold(2, vec![], 3).owned.len(), 2);
    }

    #[test]
    fn a_dead_member_does_not_count() {
        let mut world = World::new(4);
        world.hold(1, vec![], 1);
        let b = world.hold(2, vec![], 12);
        assert_eq!((b.members, b.owned.len()), (1, 4));
    }
}
