//! Streams: what every store must do.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::lane::{LaneId, Lineage};
use tidegate_core::lease::Token;
use tidegate_core::memory::{Clock, MemoryStream};
use tidegate_core::store::{BoxFuture, Sink, StreamStore};
use tidegate_core::stream::{
    Appended, Chain, Entry, EntryId, LaneAppend, Lost, Numbered, Page, ReaderHold, Register,
};
use tidegate_core::{Code, Event, Result, Timestamp, Uuid, limits};

use crate::counts;
use crate::outbox::event;

/// A stream that can be appended to and read.
pub trait Stream: Sink + StreamStore {}

impl<S: Sink + StreamStore> Stream for S {}

/// A store under test, on a clock that the suite moves. Wall time is the same clock.
pub trait Subject: Send + Sync {
    /// A handle that takes payloads up to so many bytes; each call may open another, as another process would.
    fn stream(&self, payload_max: usize) -> BoxFuture<'_, Arc<dyn Stream>>;

    /// The clock.
    fn clock(&self) -> Clock;
}

/// Makes a test of each case. `$subject` is an expression that makes a new subject.
#[macro_export]
macro_rules! stream_suite {
    ($subject:expr) => {
        $crate::stream_suite!(@each $subject;
            s_001_a_register_begins_at_nothing_under_the_given_token
            s_002_a_register_never_lowers_its_token
            s_003_entries_are_appended_and_read_in_order
            s_004_only_the_next_number_is_accepted
            s_005_a_stale_token_is_refused
            s_006_an_append_raises_the_token
            s_007_lanes_of_one_append_do_not_meet
            s_008_another_history_of_the_lane_is_refused
            s_009_a_payload_over_the_limit_is_poison_and_nothing_is_appended
            s_010_void_markers_stand_in_the_log
            s_011_an_empty_append_answers_the_register
            s_012_numbers_with_a_hole_and_lanes_named_twice_are_errors
            s_013_a_repeat_is_moved_and_appends_nothing
            s_014_lineages_do_not_meet
            s_020_reading_goes_on_after_the_cursor
            s_021_a_page_is_bounded_by_entries_and_bytes
            s_022_only_the_lanes_asked_for_are_read
            s_023_payloads_come_back_as_they_went_in
            s_024_a_cursor_beyond_the_end_sees_that_entries_are_lost
            s_025_registers_are_listed_in_order_of_lane
            s_026_every_handle_sees_the_same
            s_030_nothing_is_trimmed_above_a_hold
            s_031_trimming_is_bounded_and_by_age
            s_032_a_trimmed_stream_goes_on_where_it_was
            s_033_a_hold_is_listed_and_can_be_dropped
            s_040_a_lost_range_moves_the_register_and_is_told
            s_041_only_the_next_range_can_be_lost_and_only_by_the_owner
            s_042_a_time_is_found_in_each_lane
            s_043_a_time_before_what_is_trimmed_is_refused
            s_050_an_append_rings
            s_060_random_histories_equal_those_of_the_memory_store
        );
    };
    (@each $subject:expr; $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::stream::$case(&$subject).await;
                $crate::counts::add("conformance.stream.cases", 1);
            }
        )+
    };
}

const LIMIT: usize = limits::PAYLOAD_BYTES_MAX;

fn lane(slot: u16) -> LaneId {
    LaneId {
        lineage: Lineage(Uuid::from_u128(7)),
        slot,
    }
}

/// A lane's history so far, as an honest relay keeps it.
#[derive(Debug, Clone, Copy)]
struct Lane {
    id: LaneId,
    token: Token,
    n: u64,
    chain: Chain,
}

impl Lane {
    fn new(slot: u16) -> Self {
        Self {
            id: lane(slot),
            token: Token(10),
            n: 0,
            chain: Chain::START,
        }
    }

    fn next(&mut self, event: Option<Event>) -> Numbered {
        self.n += 1;
        self.chain = self.chain.next(self.n, event.as_ref().map(|e| e.id));
        Numbered {
            n: self.n,
            chain: self.chain,
            event,
        }
    }

    /// The next `count` events; ids tell lane and number.
    fn batch(&mut self, count: u64) -> LaneAppend {
        let slot = self.id.slot;
        let entries = (0..count).map(|_| {
            let id = u128::from(slot) * 1_000_000 + u128::from(self.n + 1);
            self.next(Some(event("k", id)))
        });
        let entries = entries.collect();
        self.append(entries)
    }

    fn append(&self, entries: Vec<Numbered>) -> LaneAppend {
        LaneAppend {
            lane: self.id,
            token: self.token,
            entries,
        }
    }

    fn register(&self) -> Register {
        Register {
            n: self.n,
            token: self.token,
            chain: self.chain,
        }
    }
}

async fn send(stream: &Arc<dyn Stream>, append: LaneAppend) -> Appended {
    stream.append(vec![append]).await.unwrap().remove(0)
}

async fn read(stream: &Arc<dyn Stream>, after: EntryId) -> Page {
    stream.read(after, None, 1000, usize::MAX).await.unwrap()
}

fn positions(page: &Page) -> Vec<(u16, u64)> {
    page.entries.iter().map(|e| (e.lane.slot, e.n)).collect()
}

fn matches(entry: &Entry, numbered: &Numbered) -> bool {
    (entry.n, entry.chain, &entry.event) == (numbered.n, numbered.chain, &numbered.event)
}

pub async fn s_001_a_register_begins_at_nothing_under_the_given_token(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let asked = vec![(lane(1), Token(5)), (lane(0), Token(6))];
    let registers = stream.register(asked).await.unwrap();
    let at = |token| {
        Some(Register {
            token: Token(token),
            ..Register::default()
        })
    };
    assert_eq!(registers, [at(5), at(6)], "in the order asked");
    assert!(stream.capabilities().compare_and_append && stream.capabilities().tokens);
}

pub async fn s_002_a_register_never_lowers_its_token(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    for (ask, expect) in [(5, 5), (9, 9), (3, 9), (9, 9)] {
        let registers = stream.register(vec![(lane(0), Token(ask))]).await.unwrap();
        assert_eq!(registers[0].unwrap().token, Token(expect));
    }
}

pub async fn s_003_entries_are_appended_and_read_in_order(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let first = a.batch(3);
    assert_eq!(send(&stream, first.clone()).await, Appended::Through(3));
    let second = a.batch(2);
    assert_eq!(send(&stream, second.clone()).await, Appended::Through(5));
    let page = read(&stream, EntryId::START).await;
    let sent: Vec<_> = first.entries.iter().chain(&second.entries).collect();
    assert_eq!(page.entries.len(), 5);
    assert!(page.entries.iter().zip(sent).all(|(e, n)| matches(e, n)));
    assert!(page.entries.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(
        (page.scanned, page.last),
        (page.entries[4].id, page.entries[4].id)
    );
    let registers = stream.registers().await.unwrap();
    assert_eq!(registers.lanes, [(a.id, a.register())]);
    assert_eq!(registers.incarnation, page.incarnation);
}

pub async fn s_004_only_the_next_number_is_accepted(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(2)).await;
    let register = a.register();
    let mut ahead = a;
    ahead.n += 1;
    assert_eq!(
        send(&stream, ahead.batch(1)).await,
        Appended::Moved(register),
        "a gap"
    );
    assert_eq!(positions(&read(&stream, EntryId::START).await), [(0, 1), (0, 2)]);
    assert_eq!(send(&stream, a.batch(1)).await, Appended::Through(3));
}

pub async fn s_005_a_stale_token_is_refused(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut zombie = Lane::new(0);
    send(&stream, zombie.batch(2)).await;
    stream.register(vec![(lane(0), Token(20))]).await.unwrap();
    assert_eq!(send(&stream, zombie.batch(1)).await, Appended::Fenced(Token(20)));
    assert_eq!(
        send(&stream, zombie.append(vec![])).await,
        Appended::Fenced(Token(20))
    );
    assert_eq!(read(&stream, EntryId::START).await.entries.len(), 2);
}

pub async fn s_006_an_append_raises_the_token(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(1)).await;
    let mut zombie = a;
    a.token = Token(30);
    assert_eq!(send(&stream, a.batch(1)).await, Appended::Through(2));
    assert_eq!(send(&stream, zombie.batch(1)).await, Appended::Fenced(Token(30)));
}

pub async fn s_007_lanes_of_one_append_do_not_meet(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut lanes: Vec<_> = (0..64).map(Lane::new).collect();
    stream.register(vec![(lane(5), Token(99))]).await.unwrap();
    lanes[6].n = 3;
    let batches = lanes
        .iter_mut()
        .map(|l| l.batch(u64::from(l.id.slot % 3) + 1))
        .collect();
    let outcomes = stream.append(batches).await.unwrap();
    for (lane, outcome) in lanes.iter().zip(outcomes) {
        let expect = match lane.id.slot {
            5 => Appended::Fenced(Token(99)),
            6 => Appended::Moved(Register::default()),
            _ => Appended::Through(lane.n),
        };
        assert_eq!(outcome, expect);
    }
    let page = read(&stream, EntryId::START).await;
    let expected: u64 = lanes
        .iter()
        .filter(|l| !matches!(l.id.slot, 5 | 6))
        .map(|l| l.n)
        .sum();
    assert_eq!(page.entries.len() as u64, expected);
}

pub async fn s_008_another_history_of_the_lane_is_refused(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(2)).await;
    let register = a.register();
    let mut fork = a;
    fork.chain = Chain([1; 16]);
    assert_eq!(send(&stream, fork.batch(1)).await, Appended::Moved(register));
    assert_eq!(read(&stream, EntryId::START).await.entries.len(), 2);
}

pub async fn s_009_a_payload_over_the_limit_is_poison_and_nothing_is_appended(subject: &dyn Subject) {
    let stream = subject.stream(100).await;
    assert_eq!(stream.capabilities().payload_bytes_max, 100);
    let mut a = Lane::new(0);
    let sized = |id, bytes| {
        Some(Event {
            payload: vec![0; bytes].into(),
            ..event("k", id)
        })
    };
    let fits = vec![a.next(sized(1, 99)), a.next(sized(2, 100))];
    assert_eq!(send(&stream, a.append(fits)).await, Appended::Through(2));
    let before = a;
    let over = vec![a.next(sized(3, 1)), a.next(sized(4, 101))];
    match send(&stream, a.append(over)).await {
        Appended::Poison { n: 4, reason } => assert!(reason.contains("101"), "{reason}"),
        other => panic!("{other:?}"),
    }
    a = before;
    assert_eq!(read(&stream, EntryId::START).await.entries.len(), 2);
    let void = vec![a.next(sized(3, 1)), a.next(None)];
    assert_eq!(send(&stream, a.append(void)).await, Appended::Through(4));
}

pub async fn s_010_void_markers_stand_in_the_log(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let entries = vec![a.next(None), a.next(Some(event("k", 1))), a.next(None)];
    assert_eq!(
        send(&stream, a.append(entries.clone())).await,
        Appended::Through(3)
    );
    let page = read(&stream, EntryId::START).await;
    assert!(page.entries.iter().zip(&entries).all(|(e, n)| matches(e, n)));
}

pub async fn s_011_an_empty_append_answers_the_register(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    assert_eq!(send(&stream, a.append(vec![])).await, Appended::Through(0));
    send(&stream, a.batch(3)).await;
    assert_eq!(send(&stream, a.append(vec![])).await, Appended::Through(3));
    assert!(stream.append(vec![]).await.unwrap().is_empty());
}

pub async fn s_012_numbers_with_a_hole_and_lanes_named_twice_are_errors(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut hole = Lane::new(0).batch(3);
    hole.entries.remove(1);
    let error = stream
        .append(vec![Lane::new(1).batch(1), hole])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    let twice = vec![Lane::new(0).batch(1), Lane::new(0).batch(1)];
    assert_eq!(stream.append(twice).await.unwrap_err().code(), Code::Internal);
    assert!(read(&stream, EntryId::START).await.entries.is_empty());
}

pub async fn s_013_a_repeat_is_moved_and_appends_nothing(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let batch = a.batch(4);
    send(&stream, batch.clone()).await;
    for _ in 0..3 {
        assert_eq!(send(&stream, batch.clone()).await, Appended::Moved(a.register()));
    }
    assert_eq!(read(&stream, EntryId::START).await.entries.len(), 4);
}

pub async fn s_014_lineages_do_not_meet(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let (mut a, mut b) = (Lane::new(0), Lane::new(0));
    b.id.lineage = Lineage(Uuid::from_u128(8));
    let outcomes = stream.append(vec![a.batch(2), b.batch(3)]).await.unwrap();
    assert_eq!(outcomes, [Appended::Through(2), Appended::Through(3)]);
    let of_b = stream
        .read(EntryId::START, Some(vec![b.id]), 100, LIMIT)
        .await
        .unwrap();
    assert!(of_b.entries.iter().all(|e| e.lane == b.id));
    assert_eq!(of_b.entries.len(), 3);
}

pub async fn s_020_reading_goes_on_after_the_cursor(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let mut cursor = EntryId::START;
    let mut seen = Vec::new();
    assert_eq!(read(&stream, cursor).await.last, EntryId::START);
    for count in [1, 5, 2] {
        send(&stream, a.batch(count)).await;
        let page = read(&stream, cursor).await;
        assert_eq!(page.entries.len() as u64, count);
        seen.extend(page.entries.iter().map(|e| e.n));
        cursor = page.scanned;
        assert!(read(&stream, cursor).await.entries.is_empty());
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7, 8]);
}

pub async fn s_021_a_page_is_bounded_by_entries_and_bytes(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let entries: Vec<_> = (1..=6)
        .map(|id| {
            a.next(Some(Event {
                payload: vec![0; 100].into(),
                ..event("k", id)
            }))
        })
        .collect();
    send(&stream, a.append(entries)).await;
    let all = read(&stream, EntryId::START).await.entries;
    for (limit, bytes, expect) in [
        (2, LIMIT, 2),
        (6, LIMIT, 6),
        (100, 250, 3),
        (100, 0, 1),
        (100, 300, 3),
    ] {
        let page = stream.read(EntryId::START, None, limit, bytes).await.unwrap();
        assert_eq!((page.entries.len(), page.scanned), (expect, all[expect - 1].id));
        assert_eq!(page.last, all[5].id);
    }
}

pub async fn s_022_only_the_lanes_asked_for_are_read(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut lanes: Vec<_> = (0..4).map(Lane::new).collect();
    for _ in 0..3 {
        let batches = lanes.iter_mut().map(|l| l.batch(2)).collect();
        stream.append(batches).await.unwrap();
    }
    let all = read(&stream, EntryId::START).await;
    let asked = Some(vec![lane(1), lane(9)]);
    let page = stream
        .read(EntryId::START, asked.clone(), 100, LIMIT)
        .await
        .unwrap();
    assert_eq!(positions(&page), (1..=6).map(|n| (1, n)).collect::<Vec<_>>());
    assert_eq!(page.scanned, all.last, "what is of other lanes is passed");
    let page = stream.read(EntryId::START, asked, 3, LIMIT).await.unwrap();
    assert_eq!(page.scanned, page.entries[2].id);
    let none = stream.read(EntryId::START, Some(vec![]), 3, LIMIT).await.unwrap();
    assert_eq!((none.entries.len(), none.scanned), (0, all.last));
}

pub async fn s_023_payloads_come_back_as_they_went_in(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let payloads = [vec![], b"\0\xff\0".to_vec(), vec![7; LIMIT]];
    let entries: Vec<_> = payloads
        .into_iter()
        .zip(1..)
        .map(|(payload, id)| {
            a.next(Some(Event {
                payload: payload.into(),
                headers: vec![("h".into(), "✓".into()); usize::try_from(id).unwrap()],
                key: None,
                version: Some(i64::MIN),
                ..event("", id)
            }))
        })
        .collect();
    assert_eq!(
        send(&stream, a.append(entries.clone())).await,
        Appended::Through(3)
    );
    let page = read(&stream, EntryId::START).await;
    assert!(page.entries.iter().zip(&entries).all(|(e, n)| matches(e, n)));
}

pub async fn s_024_a_cursor_beyond_the_end_sees_that_entries_are_lost(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    send(&stream, Lane::new(0).batch(2)).await;
    for after in [EntryId(0, 9), EntryId(0, u64::MAX), EntryId(u64::MAX, u64::MAX)] {
        let page = read(&stream, after).await;
        assert!(page.entries.is_empty() && page.last < after);
    }
}

pub async fn s_025_registers_are_listed_in_order_of_lane(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut lanes: Vec<_> = [3, 0, 2].map(Lane::new).into();
    lanes[1].id.lineage = Lineage(Uuid::from_u128(9));
    let batches = lanes.iter_mut().map(|l| l.batch(2)).collect();
    stream.append(batches).await.unwrap();
    let mut expect: Vec<_> = lanes.iter().map(|l| (l.id, l.register())).collect();
    expect.sort_by_key(|(lane, _)| *lane);
    assert_eq!(stream.registers().await.unwrap().lanes, expect);
}

pub async fn s_026_every_handle_sees_the_same(subject: &dyn Subject) {
    let (one, two) = (subject.stream(LIMIT).await, subject.stream(LIMIT).await);
    let mut a = Lane::new(0);
    send(&one, a.batch(1)).await;
    send(&two, a.batch(1)).await;
    assert_eq!(read(&one, EntryId::START).await, read(&two, EntryId::START).await);
    assert_eq!(one.registers().await.unwrap(), two.registers().await.unwrap());
}

fn now(subject: &dyn Subject) -> Timestamp {
    Timestamp::from_micros(subject.clock().now().as_micros())
}

pub async fn s_030_nothing_is_trimmed_above_a_hold(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    send(&stream, Lane::new(0).batch(10)).await;
    subject.clock().advance(Duration::from_secs(1));
    let all = read(&stream, EntryId::START).await.entries;
    stream.publish_hold("slow".into(), all[2].id).await.unwrap();
    stream.publish_hold("fast".into(), all[8].id).await.unwrap();
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 3);
    stream.publish_hold("slow".into(), all[5].id).await.unwrap();
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 3);
    assert_eq!(read(&stream, EntryId::START).await.entries, all[6..]);
    stream.publish_hold("new".into(), EntryId::START).await.unwrap();
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 0);
}

pub async fn s_031_trimming_is_bounded_and_by_age(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(5)).await;
    subject.clock().advance(Duration::from_secs(1));
    let middle = now(subject);
    send(&stream, a.batch(5)).await;
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(stream.trim(middle, 3).await.unwrap(), 3);
    assert_eq!(
        stream.trim(middle, 3).await.unwrap(),
        2,
        "what was appended at that time stays"
    );
    assert_eq!(stream.trim(middle, 3).await.unwrap(), 0);
    assert_eq!(read(&stream, EntryId::START).await.entries.len(), 5);
}

pub async fn s_032_a_trimmed_stream_goes_on_where_it_was(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(3)).await;
    let last = read(&stream, EntryId::START).await.last;
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 3);
    let page = read(&stream, EntryId::START).await;
    assert_eq!((page.entries.len(), page.last, page.scanned), (0, last, last));
    assert_eq!(send(&stream, a.batch(1)).await, Appended::Through(4));
    let page = read(&stream, last).await;
    assert!(page.entries[0].id > last && page.entries[0].n == 4);
}

/// A reader that is gone for good holds back trimming until a person drops its hold.
pub async fn s_033_a_hold_is_listed_and_can_be_dropped(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    send(&stream, Lane::new(0).batch(3)).await;
    let (begun, first) = (now(subject), EntryId(0, 1));
    stream.publish_hold("gone".into(), EntryId::START).await.unwrap();
    stream.publish_hold("alive".into(), EntryId::START).await.unwrap();
    subject.clock().advance(Duration::from_secs(5));
    stream.publish_hold("alive".into(), first).await.unwrap();
    let hold = |reader: &str, below, renewed_at| ReaderHold {
        reader: reader.into(),
        below,
        renewed_at,
    };
    let alive = hold("alive", first, begun.after(Duration::from_secs(5)));
    let gone = hold("gone", EntryId::START, begun);
    assert_eq!(stream.holds().await.unwrap(), [alive.clone(), gone]);
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 0);
    for there in [true, false] {
        assert_eq!(stream.drop_hold("gone".into()).await.unwrap(), there);
        assert_eq!(stream.holds().await.unwrap(), std::slice::from_ref(&alive));
    }
    assert_eq!(stream.trim(now(subject), 100).await.unwrap(), 1);
}

fn lost(a: &Lane, from: u64, through: u64) -> Lost {
    Lost {
        lane: a.id,
        from,
        through,
        chain: Chain([3; 16]),
    }
}

pub async fn s_040_a_lost_range_moves_the_register_and_is_told(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(2)).await;
    let gone = lost(&a, 3, 6);
    assert_eq!(
        stream.declare_lost(gone, a.token).await.unwrap(),
        Appended::Through(6)
    );
    assert_eq!(stream.lost().await.unwrap(), [gone]);
    (a.n, a.chain) = (6, gone.chain);
    assert_eq!(stream.registers().await.unwrap().lanes, [(a.id, a.register())]);
    assert_eq!(send(&stream, a.batch(1)).await, Appended::Through(7));
}

pub async fn s_041_only_the_next_range_can_be_lost_and_only_by_the_owner(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    send(&stream, a.batch(2)).await;
    for (from, through) in [(2, 5), (4, 5), (3, 2)] {
        let outcome = stream
            .declare_lost(lost(&a, from, through), a.token)
            .await
            .unwrap();
        assert_eq!(outcome, Appended::Moved(a.register()));
    }
    let outcome = stream.declare_lost(lost(&a, 3, 4), Token(1)).await.unwrap();
    assert_eq!(outcome, Appended::Fenced(a.token));
    assert!(stream.lost().await.unwrap().is_empty());
}

/// The numbers after which a reader begins that wants everything from `time` on; what it reads then follows.
async fn begins(stream: &Arc<dyn Stream>, time: Timestamp) -> Vec<(u16, u64)> {
    let places = stream.locate(time).await.unwrap();
    let all = read(stream, EntryId::START).await.entries;
    for (lane, place) in &places {
        let first = all.iter().find(|e| e.lane == *lane && e.n > place.n);
        if let Some(first) = first {
            let id = first.event.as_ref().map(|e| e.id);
            assert_eq!(
                (first.n, first.chain),
                (place.n + 1, place.chain.next(first.n, id))
            );
        }
        let passed = all.iter().filter(|e| e.lane == *lane && e.id <= place.cursor);
        assert!(passed.map(|e| e.n).all(|n| n <= place.n));
    }
    places.iter().map(|(lane, place)| (lane.slot, place.n)).collect()
}

pub async fn s_042_a_time_is_found_in_each_lane(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    assert_eq!(begins(&stream, now(subject)).await, []);
    let (mut a, mut b, c) = (Lane::new(0), Lane::new(1), Lane::new(2));
    let before = now(subject);
    send(&stream, a.batch(3)).await;
    stream.register(vec![(c.id, c.token)]).await.unwrap();
    subject.clock().advance(Duration::from_secs(1));
    let between = now(subject);
    let void = b.next(None);
    send(&stream, b.append(vec![void])).await;
    send(&stream, a.batch(2)).await;
    subject.clock().advance(Duration::from_secs(1));
    let after = now(subject);
    let micro = Duration::from_micros(1);
    for (time, expected) in [
        (before, [0, 0, 0]),
        (before.after(micro), [3, 0, 0]),
        (between.before(micro), [3, 0, 0]),
        (between, [3, 0, 0]),
        (between.after(micro), [5, 1, 0]),
        (after, [5, 1, 0]),
    ] {
        let numbers: Vec<u64> = begins(&stream, time).await.into_iter().map(|(_, n)| n).collect();
        assert_eq!(numbers, expected, "{time:?}");
    }
    // What was declared lost was never there to be read.
    let gone = lost(&a, 6, 8);
    stream.declare_lost(gone, a.token).await.unwrap();
    (a.n, a.chain) = (8, gone.chain);
    send(&stream, a.batch(1)).await;
    assert_eq!(begins(&stream, after).await, [(0, 8), (1, 1), (2, 0)]);
    assert_eq!(begins(&stream, before).await, [(0, 0), (1, 0), (2, 0)]);
}

/// Whether what is gone was older than the time, nobody knows: nothing is passed over in silence.
pub async fn s_043_a_time_before_what_is_trimmed_is_refused(subject: &dyn Subject) {
    let stream = subject.stream(LIMIT).await;
    let mut a = Lane::new(0);
    let before = now(subject);
    send(&stream, a.batch(2)).await;
    subject.clock().advance(Duration::from_secs(1));
    let between = now(subject);
    send(&stream, a.batch(2)).await;
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(stream.trim(between, 1).await.unwrap(), 1);
    assert_eq!(
        begins(&stream, between).await,
        [(0, 2)],
        "the one before it is there"
    );
    assert_eq!(stream.trim(between, 1).await.unwrap(), 1);
    for time in [before, between] {
        let error = stream.locate(time).await.unwrap_err();
        assert_eq!(error.code(), Code::Gap);
        assert!(error.context().contains("number 2 is trimmed"), "{error}");
    }
    assert_eq!(begins(&stream, now(subject)).await, [(0, 4)]);
}

pub async fn s_050_an_append_rings(subject: &dyn Subject) {
    let (one, two) = (subject.stream(LIMIT).await, subject.stream(LIMIT).await);
    let bell = one.rung();
    send(&two, Lane::new(0).batch(1)).await;
    bell.await;
}

// ---- random histories ----

/// `TIDEGATE_HISTORIES` (200) times 40 steps on one stream, replies compared with those of the memory store.
pub async fn s_060_random_histories_equal_those_of_the_memory_store(subject: &dyn Subject) {
    let histories = counts::budget("TIDEGATE_HISTORIES", 200);
    let seed = counts::budget("TIDEGATE_SEED", 1);
    let (real, model) = (subject.stream(60).await, MemoryStream::new(subject.clock()));
    model.limit_payload(60);
    let mut world = World {
        real,
        model,
        clock: subject.clock(),
        random: fastrand::Rng::with_seed(seed),
        lanes: (0..5).map(Lane::new).collect(),
        ids: 0,
        positions: Vec::new(),
    };
    for history in 0..histories {
        for step in 0..40 {
            world.step().await.unwrap_or_else(|difference| {
                panic!("seed {seed}, history {history}, step {step}: {difference}")
            });
        }
    }
    counts::add("conformance.stream.histories", histories);
}

struct World {
    real: Arc<dyn Stream>,
    model: MemoryStream,
    clock: Clock,
    random: fastrand::Rng,
    lanes: Vec<Lane>,
    ids: u128,
    /// Where each entry stands in the real stream; the model counts them from one.
    positions: Vec<EntryId>,
}

fn same<T: PartialEq + std::fmt::Debug>(real: Result<T>, model: Result<T>) -> Result<Option<T>, String> {
    match (real, model) {
        (Ok(real), Ok(model)) if real == model => Ok(Some(real)),
        (Err(real), Err(model)) if real.code() == model.code() => Ok(None),
        (real, model) => Err(format!("{real:?}\nis not\n{model:?}")),
    }
}

/// Incarnations differ by nature.
fn without_incarnation(page: Result<Page>) -> Result<Page> {
    page.map(|page| Page {
        incarnation: Uuid::nil(),
        ..page
    })
}

impl World {
    async fn step(&mut self) -> Result<(), String> {
        match self.random.u8(..100) {
            0..45 => self.append().await,
            45..55 => {
                let lanes: Vec<_> = self.lanes.iter().map(|l| (l.id, l.token)).collect();
                let (real, model) = (
                    self.real.register(lanes.clone()).await,
                    self.model.register(lanes).await,
                );
                same(real, model).map(|_| ())
            }
            55..80 => self.read().await,
            80..85 => self.declare().await,
            85..90 => {
                let (reader, below) = (format!("r{}", self.random.u8(..2)), self.position());
                let (real, model) = (
                    self.real.publish_hold(reader.clone(), self.in_real(below)).await,
                    self.model.publish_hold(reader, below).await,
                );
                same(real, model).map(|_| ())
            }
            90..95 => {
                let now = Timestamp::from_micros(self.clock.now().as_micros());
                let before = now.before(Duration::from_millis(self.random.u64(..3000)));
                let limit = self.random.u32(1..40);
                same(
                    self.real.trim(before, limit).await,
                    self.model.trim(before, limit).await,
                )
                .map(|_| ())
            }
            _ => {
                self.clock.advance(Duration::from_millis(self.random.u64(..800)));
                let (real, model) = (self.real.registers().await, self.model.registers().await);
                same(real.map(|r| r.lanes), model.map(|r| r.lanes))?;
                same(self.real.lost().await, self.model.lost().await).map(|_| ())
            }
        }
    }

    fn position(&mut self) -> EntryId {
        EntryId(0, self.random.u64(0..self.positions.len() as u64 + 2))
    }

    /// The real stream's position for one of the model's.
    fn in_real(&self, position: EntryId) -> EntryId {
        match usize::try_from(position.1).unwrap().checked_sub(1) {
            None => EntryId::START,
            Some(at) => self.positions.get(at).copied().unwrap_or_else(|| {
                let last = self.positions.last().copied().unwrap_or_default();
                EntryId(last.0, last.1 + 1)
            }),
        }
    }

    /// The model's position for one of the real stream's.
    fn in_model(&self, position: EntryId) -> EntryId {
        let at = self.positions.partition_point(|known| *known <= position);
        EntryId(0, at as u64)
    }

    /// Notes where new entries stand.
    async fn note_positions(&mut self) -> Result<(), String> {
        let last = self.positions.last().copied().unwrap_or_default();
        let page = self.real.read(last, None, 1000, LIMIT).await;
        let page = page.map_err(|e| e.to_string())?;
        self.positions.extend(page.entries.iter().map(|entry| entry.id));
        Ok(())
    }

    fn page_in_model(&self, mut page: Page) -> Page {
        page.last = self.in_model(page.last);
        page.scanned = self.in_model(page.scanned);
        for entry in &mut page.entries {
            entry.id = self.in_model(entry.id);
        }
        page
    }

    async fn append(&mut self) -> Result<(), String> {
        let mut tried = self.lanes.clone();
        let mut appends = Vec::new();
        for lane in &mut tried {
            if self.random.u8(..3) == 0 {
                continue;
            }
            match self.random.u8(..30) {
                0 => lane.n += 1,
                1 => lane.chain = Chain([8; 16]),
                2 => lane.token = Token(lane.token.0 - 1),
                3 => lane.token = Token(lane.token.0 + 1),
                _ => {}
            }
            let entries =
                (0..self.random.u64(0..4)).map(|_| lane.next(random_event(&mut self.random, &mut self.ids)));
            let entries = entries.collect();
            appends.push(lane.append(entries));
        }
        let (real, model) = (
            self.real.append(appends.clone()).await,
            self.model.append(appends).await,
        );
        same(real, model)?;
        self.note_positions().await?;
        let registers = self.model.registers().await.map_err(|e| e.to_string())?;
        for lane in &mut self.lanes {
            if let Some((_, register)) = registers.lanes.iter().find(|(id, _)| *id == lane.id) {
                (lane.n, lane.chain, lane.token) =
                    (register.n, register.chain, lane.token.max(register.token));
            }
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), String> {
        let after = self.position();
        let lanes = self.random.bool().then(|| {
            let some = self.lanes.iter().filter(|_| self.random.bool());
            some.map(|l| l.id).collect::<Vec<_>>()
        });
        let (limit, bytes) = (self.random.u32(1..20), self.random.usize(..300));
        let real = self
            .real
            .read(self.in_real(after), lanes.clone(), limit, bytes)
            .await;
        let real = real.map(|page| self.page_in_model(page));
        let model = self.model.read(after, lanes, limit, bytes).await;
        same(without_incarnation(real), without_incarnation(model)).map(|_| ())
    }

    async fn declare(&mut self) -> Result<(), String> {
        let at = self.random.usize(..self.lanes.len());
        let lane = &mut self.lanes[at];
        let from = lane.n + self.random.u64(..2);
        let lost = lost(lane, from, from + self.random.u64(..4));
        let token = lane.token;
        let outcome = same(
            self.real.declare_lost(lost, token).await,
            self.model.declare_lost(lost, token).await,
        )?;
        if let Some(Appended::Through(n)) = outcome {
            (lane.n, lane.chain) = (n, lost.chain);
        }
        Ok(())
    }
}

fn random_event(random: &mut fastrand::Rng, ids: &mut u128) -> Option<Event> {
    *ids += 1;
    let payload = vec![1; random.usize(..62)].into();
    (random.u8(..6) > 0).then(|| Event {
        payload,
        ..event("k", *ids)
    })
}
