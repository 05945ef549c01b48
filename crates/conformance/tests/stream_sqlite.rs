//! The stream suite over SQLite, and what only a file can show.

// Helpers are tests too.
#![allow(clippy::unwrap_used)]

mod sqlite_file;

use std::sync::Arc;

use sqlite_file::File;
use tidegate_conformance::stream::{Stream, Subject};
use tidegate_conformance::stream_suite;
use tidegate_core::Uuid;
use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::memory::Clock;
use tidegate_core::store::{BoxFuture, Sink, StreamStore};
use tidegate_core::stream::{Chain, EntryId, LaneAppend, Numbered};
use tidegate_stores::sqlite::SqliteStream;

impl Subject for File {
    fn stream(&self, payload_max: usize) -> BoxFuture<'_, Arc<dyn Stream>> {
        Box::pin(async move {
            let stream = SqliteStream::open(&self.database(), "orders").await.unwrap();
            Arc::new(stream.with_payload_max(payload_max)) as Arc<dyn Stream>
        })
    }

    fn clock(&self) -> Clock {
        self.clock.clock.clone()
    }
}

stream_suite!(File::new());

fn voids(slot: u16, from: (u64, Chain), count: u64) -> LaneAppend {
    let mut chain = from.1;
    let entries = (from.0 + 1..=from.0 + count).map(|n| {
        chain = chain.next(n, None);
        Numbered {
            n,
            chain,
            event: None,
        }
    });
    LaneAppend {
        lane: LaneId {
            lineage: Lineage(Uuid::from_u128(1)),
            slot,
        },
        token: Token(3),
        entries: entries.collect(),
    }
}

#[tokio::test]
async fn streams_of_one_file_do_not_meet() {
    let file = File::new();
    let db = file.database();
    let a = SqliteStream::open(&db, "a").await.unwrap();
    let b = SqliteStream::open(&db, "b").await.unwrap();
    for count in [3, 2] {
        let at = a
            .registers()
            .await
            .unwrap()
            .lanes
            .first()
            .map_or((0, Chain::START), |(_, r)| (r.n, r.chain));
        a.append(vec![voids(0, at, count)]).await.unwrap();
        b.append(vec![voids(0, at, count)]).await.unwrap();
    }
    b.trim(tidegate_core::Timestamp::from_micros(i64::MAX), 4)
        .await
        .unwrap();
    let of_a = a.read(EntryId::START, None, 100, 100).await.unwrap();
    let of_b = b.read(EntryId::START, None, 100, 100).await.unwrap();
    assert_ne!(of_a.incarnation, of_b.incarnation);
    assert_eq!((of_a.entries.len(), of_b.entries.len()), (5, 1));
    assert_eq!(
        (of_a.last, of_b.last, of_b.entries[0].n),
        (EntryId(0, 5), EntryId(0, 5), 5)
    );
}

/// Work is counted, not timed: these numbers gate.
#[tokio::test]
async fn an_append_over_64_lanes_runs_a_constant_number_of_statements() {
    let file = File::new();
    let db = file.database();
    let stream = SqliteStream::open(&db, "orders").await.unwrap();
    stream
        .append((0..64).map(|slot| voids(slot, (0, Chain::START), 1)).collect())
        .await
        .unwrap();
    for count in [1, 10] {
        let registers = stream.registers().await.unwrap().lanes;
        let at = registers
            .iter()
            .map(|(lane, r)| voids(lane.slot, (r.n, r.chain), count));
        let appends = at.collect();
        let before = (db.statements(), db.commits());
        stream.append(appends).await.unwrap();
        // Begin, registers, positions, entries, registers, commit.
        assert_eq!((db.statements() - before.0, db.commits() - before.1), (6, 1));
        let before = db.statements();
        stream.read(EntryId::START, None, 1000, 1 << 20).await.unwrap();
        assert_eq!(db.statements() - before, 4, "begin, head, entries, rollback");
    }
}
