//! The simplest honest relay: hold, load, take as published, settle.

#![allow(dead_code)] // Each test file uses a part.

use std::time::Duration;

use tidegate_core::lane::{Held, Hold};
use tidegate_core::lease::Nonce;
use tidegate_core::outbox::{LaneState, LaneTurn, LaneTurned, Planned, Turn, Turned};
use tidegate_core::store::OutboxStore as _;
use tidegate_core::stream::Chain;
use tidegate_core::{Event, Result};
use tidegate_stores::postgres::outbox::Wanted;
use tidegate_stores::postgres::{Database, PostgresOutbox};

use crate::postgres_server::Server;

pub(crate) struct Pump {
    pub(crate) outbox: PostgresOutbox,
    pub(crate) member: u128,
    /// Everything since the last drain that was settled.
    published: Vec<Event>,
}

impl Pump {
    pub(crate) async fn start(server: &Server, lanes: u16, member: u128) -> Self {
        server.clock.advance(Duration::from_secs(1));
        Self::on(&server.another().await, lanes, member).await
    }

    pub(crate) async fn on(database: &Database, lanes: u16, member: u128) -> Self {
        let wanted = Wanted {
            lanes,
            archive: false,
        };
        Self {
            outbox: PostgresOutbox::open(database, "orders", wanted).await.unwrap(),
            member,
            published: Vec::new(),
        }
    }

    pub(crate) async fn use_database(&mut self, database: &Database, lanes: u16, member: u128) {
        *self = Self::on(database, lanes, member).await;
    }

    pub(crate) async fn hold(&self) -> Result<Held<LaneState>> {
        let hold = Hold {
            member: Nonce(self.member),
            label: format!("pump {}", self.member),
            ttl: Duration::from_secs(1),
            release: Vec::new(),
            leave: false,
        };
        self.outbox.hold(hold).await
    }

    pub(crate) async fn send(&self, lanes: Vec<LaneTurn>) -> Result<Vec<Turned>> {
        let turn = Turn {
            member: Nonce(self.member),
            lanes,
            bytes_max: 1 << 20,
        };
        self.outbox.turn(turn).await
    }

    /// Loads and plans at most so many rows of each lane.
    pub(crate) async fn plan(&self, held: &Held<LaneState>, plan: u32) -> Result<Vec<Turned>> {
        let part = |o: &tidegate_core::lane::Owned<LaneState>| LaneTurn {
            lane: o.lane,
            token: o.token,
            settle: None,
            plan,
            load: true,
        };
        self.send(held.owned.iter().map(part).collect()).await
    }

    /// Plans what is there and settles it. Returns how many events.
    pub(crate) async fn try_round(&mut self) -> Result<usize> {
        let held = self.hold().await?;
        let turned = self.plan(&held, 20).await?;
        let mut settles = Vec::new();
        let mut events = Vec::new();
        for (owned, turned) in held.owned.iter().zip(turned) {
            let LaneTurned::Planned { events: planned, .. } = turned.outcome else {
                continue;
            };
            if planned.is_empty() {
                continue;
            }
            settles.push(LaneTurn {
                lane: owned.lane,
                token: owned.token,
                settle: Some(end(owned.state.chain, &planned)),
                plan: 0,
                load: false,
            });
            events.extend(planned.into_iter().filter_map(|p| p.event));
        }
        if settles.is_empty() {
            return Ok(0);
        }
        let settled = self.send(settles).await?;
        assert!(settled.iter().all(|t| t.outcome != LaneTurned::Fenced));
        let count = events.len();
        self.published.extend(events);
        Ok(count)
    }

    pub(crate) async fn round(&mut self) -> usize {
        self.try_round().await.unwrap()
    }

    /// Everything published since the start or the last call, until nothing is left.
    pub(crate) async fn drain(&mut self) -> Vec<Event> {
        while self.round().await > 0 {}
        std::mem::take(&mut self.published)
    }

    pub(crate) async fn depth(&self) -> u64 {
        self.outbox
            .lanes()
            .await
            .unwrap()
            .iter()
            .map(|row| row.depth)
            .sum()
    }
}

/// The number and chain after these.
pub(crate) fn end(from: Chain, planned: &[Planned]) -> (u64, Chain) {
    let next = |(_, chain): (u64, Chain), p: &Planned| (p.n, chain.next(p.n, p.event.as_ref().map(|e| e.id)));
    planned.iter().fold((0, from), next)
}
