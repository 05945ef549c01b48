//! Dead letters: what people see, and what they decide.

use std::sync::Mutex;
use std::time::Duration;

use tidegate_core::dead_letter::{
    Courier, Decided, Detail, Filter, Id, ParkedKeys, State, Told, Untold, Which,
};
use tidegate_core::inbox::block::block_on;
use tidegate_core::inbox::{KeyRef, Options, Policy};
use tidegate_core::store::{BoxFuture, DeadLetterSink, DeadLetters};
use tidegate_core::{Code, Error, Result, Ticks, Timestamp};

use super::{Act, Case, Feed, NOW, Plan, TTL, World, lane};

const MINUTE: Duration = Duration::from_secs(60);

fn id(slot: u16, n: u64) -> Id {
    Id { lane: lane(slot), n }
}

fn at(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

fn key(name: &str) -> Which {
    Which::Key(KeyRef {
        lineage: lane(0).lineage,
        key: format!("k:{name}"),
    })
}

/// One attempt, then dead.
fn strict() -> Options {
    Options {
        attempts_max: 0,
        ..Options::default()
    }
}

fn skipping() -> Options {
    Options {
        policy: Policy::Skip,
        ..Options::default()
    }
}

/// A consumer with these events, those of `bad` and `worse` dead.
fn dead<'w>(world: &'w dyn World, feed: &mut Feed, keys: &[&str]) -> Case<'w> {
    let case = Case::start(world);
    case.apply_with(Plan::poison(&["bad", "worse"]), strict(), &feed.events(0, keys));
    case
}

fn list(world: &dyn World, filter: Filter) -> Vec<(u64, State, u64)> {
    let letters = block_on(world.letters().ls(filter)).unwrap();
    letters.iter().map(|l| (l.id.n, l.state, l.waiting)).collect()
}

fn discard(world: &dyn World, n: u64) -> Result<Decided> {
    let decided = block_on(world.letters().discard(id(0, n), "it is a test".into(), at(1)));
    world.snapshot().check();
    decided
}

fn redrive(world: &dyn World, which: Which, now: Timestamp) -> Result<u64> {
    block_on(world.letters().redrive(which, String::new(), now))
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code()
}

/// Q3: neither list nor view shows an address, a name or a secret; sizes and positions stay.
pub fn c100_what_people_see_is_redacted(world: &dyn World) {
    let case = Case::start(world);
    let payload =
        r#"{"order": 7, "email": "jane@example.org", "note": "call +1 212 555 0100", "password": "x"}"#;
    let entry = Feed::default().json(0, "jane@example.org", payload);
    let plan = Plan::each(|_| Act::Fail("poisoned"));
    case.apply_with(plan, strict(), &[entry]);
    let letters = world.letters();
    let line = &block_on(letters.ls(Filter::default())).unwrap()[0];
    let detail = block_on(letters.show(id(0, 1))).unwrap().expect("there");
    let seen = format!("{line:?} {detail:?}");
    for private in ["jane", "example.org", "555", "\"x\""] {
        assert!(!seen.contains(private), "{private} in {seen}");
    }
    assert_eq!(detail.payload_bytes, payload.len());
    assert!(detail.payload.as_str().contains('7'), "{seen}");
    assert_eq!(
        (line.fingerprint.as_str(), line.class.as_str()),
        ("poisoned", "handler")
    );
    assert_eq!(block_on(letters.show(id(0, 9))).unwrap(), None);
    assert_eq!(block_on(letters.show(id(3, 1))).unwrap(), None);
}

/// By state, by cause, and by number of lines; oldest first.
pub fn c101_a_list_can_be_narrowed(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let plan = Plan::each(|event| match event.event.key.as_deref() {
        Some("bad") => Act::Fail("one"),
        Some("worse") => Act::Fail("two"),
        _ => Act::Apply,
    });
    case.apply_with(plan.clone(), skipping(), &feed.events(0, &["bad"]));
    case.apply_with(plan.clone(), strict(), &feed.events(0, &["worse", "a", "worse"]));
    case.apply_with(plan, Options::default(), &feed.events(0, &["bad"]));
    let all = vec![
        (1, State::Skipped, 1),
        (2, State::Dead, 2),
        (5, State::Retrying, 1),
    ];
    assert_eq!(list(world, Filter::default()), all);
    let filter = |state, fingerprint: Option<&str>, limit| Filter {
        state,
        fingerprint: fingerprint.map(str::to_owned),
        limit,
    };
    assert_eq!(list(world, filter(Some(State::Dead), None, 9)), all[1..2]);
    assert_eq!(list(world, filter(Some(State::Skipped), None, 9)), all[..1]);
    assert_eq!(list(world, filter(None, Some("two"), 9)), all[1..2]);
    assert_eq!(list(world, filter(None, None, 2)), all[..2]);
}

/// Q4: a double click redrives once, and nothing overtakes.
pub fn c102_a_redrive_happens_once_and_keeps_the_order(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad", "a", "bad"]);
    assert_eq!(case.retry(Plan::fine(), strict(), MINUTE).counts.applied, 0);
    assert_eq!(redrive(world, key("bad"), at(60)).unwrap(), 1);
    assert_eq!(redrive(world, key("bad"), at(61)).unwrap(), 0, "already due");
    let audit = block_on(world.letters().audit(10)).unwrap();
    assert_eq!(
        (audit.len(), audit[0].action.as_str(), audit[0].id),
        (1, "redrive", id(0, 1))
    );
    case.apply(Plan::fine(), &feed.events(0, &["bad"]));
    let retried = case.retry(Plan::fine(), strict(), MINUTE);
    assert_eq!((retried.counts.applied, retried.counts.unparked), (3, 1));
    assert_eq!(world.snapshot().applied(0), vec![2, 1, 3, 4]);
    assert_eq!(code(redrive(world, key("bad"), at(62))), Code::NotFound);
}

/// Each way to name what is to be redriven.
pub fn c103_a_redrive_by_event_key_cause_or_all(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad", "worse", "bad"]);
    assert_eq!(
        redrive(world, Which::Event(id(0, 3)), at(1)).unwrap(),
        1,
        "behind the head"
    );
    assert_eq!(redrive(world, Which::All, at(1)).unwrap(), 1, "the other one");
    assert_eq!(redrive(world, Which::All, at(1)).unwrap(), 0);
    case.retry(Plan::each(|_| Act::Fail("other")), strict(), MINUTE);
    assert_eq!(
        redrive(world, Which::Fingerprint("none such".into()), at(61)).unwrap(),
        0
    );
    assert_eq!(
        redrive(world, Which::Fingerprint("other".into()), at(61)).unwrap(),
        2
    );
    assert_eq!(case.retry(Plan::fine(), strict(), MINUTE * 2).counts.applied, 3);
}

/// What is not there, and what is there in another form.
pub fn c104_a_redrive_refuses_what_is_not_there(world: &dyn World) {
    let case = Case::start(world);
    assert_eq!(code(redrive(world, key("bad"), at(1))), Code::NotFound);
    assert_eq!(
        code(redrive(world, Which::Event(id(0, 1)), at(1))),
        Code::NotFound
    );
    let mut feed = Feed::default();
    case.apply_with(Plan::poison(&["bad"]), skipping(), &feed.events(0, &["bad"]));
    assert_eq!(
        code(redrive(world, Which::Event(id(0, 1)), at(1))),
        Code::OptionsInvalid
    );
    assert_eq!(redrive(world, Which::All, at(1)).unwrap(), 0);
    assert!(block_on(world.letters().audit(10)).unwrap().is_empty());
}

/// The next event becomes the head, with all its attempts, at once.
pub fn c105_a_discarded_head_lets_its_followers_go(world: &dyn World) {
    let case = dead(world, &mut Feed::default(), &["bad", "bad", "bad"]);
    assert_eq!(discard(world, 1).unwrap(), Decided::Done);
    assert_eq!(list(world, Filter::default()), vec![(2, State::Retrying, 2)]);
    assert_eq!(discard(world, 3).unwrap(), Decided::Done);
    assert_eq!(list(world, Filter::default()), vec![(2, State::Retrying, 1)]);
    let retried = case.retry(Plan::fine(), strict(), MINUTE);
    assert_eq!((retried.counts.applied, retried.counts.unparked), (1, 1));
    assert_eq!(world.snapshot().applied(0), vec![2]);
}

/// An empty queue holds back nobody.
pub fn c106_discarding_the_last_event_unparks_the_key(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad"]);
    discard(world, 1).unwrap();
    assert!(world.snapshot().parked.is_empty());
    case.apply(Plan::fine(), &feed.events(0, &["bad"]));
    assert_eq!(world.snapshot().applied(0), vec![2]);
}

/// Audited with its reason and position in the same transaction; the second time changes nothing.
pub fn c107_a_discard_needs_a_reason_and_happens_once(world: &dyn World) {
    dead(world, &mut Feed::default(), &["bad", "bad"]);
    let letters = world.letters();
    let before = world.snapshot();
    for reason in [String::new(), "  ".into(), "x".repeat(1025)] {
        let refused = block_on(letters.discard(id(0, 1), reason, at(1)));
        assert_eq!(code(refused), Code::OptionsInvalid);
    }
    assert_eq!(world.snapshot(), before);
    assert_eq!(code(discard(world, 7)), Code::NotFound);
    assert_eq!(discard(world, 1).unwrap(), Decided::Done);
    let once = world.snapshot();
    assert_eq!(discard(world, 1).unwrap(), Decided::Already);
    assert_eq!(world.snapshot(), once);
    let audit = block_on(letters.audit(10)).unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!(
        (audit[0].reason.as_str(), audit[0].id),
        ("it is a test", id(0, 1))
    );
}

/// A decision of its own, since newer events of the key are applied; still newer ones wait meanwhile.
pub fn c108_a_skipped_event_is_released_out_of_order(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let fails = Plan::each(|event| {
        if event.n == 1 {
            Act::Fail("once")
        } else {
            Act::Apply
        }
    });
    case.apply_with(fails, skipping(), &feed.events(0, &["bad", "bad"]));
    let letters = world.letters();
    let release = |n| block_on(letters.release(id(0, n), "mended".into(), at(1)));
    assert_eq!(release(1).unwrap(), Decided::Done);
    assert_eq!(release(1).unwrap(), Decided::Already);
    assert_eq!(code(release(2)), Code::NotFound, "it was applied");
    world.snapshot().check();
    case.apply(Plan::fine(), &feed.events(0, &["bad"]));
    assert_eq!(world.snapshot().parked("bad").unwrap().events, vec![1, 3]);
    case.retry(Plan::fine(), Options::default(), MINUTE);
    assert_eq!(world.snapshot().applied(0), vec![2, 1, 3]);
    assert_eq!(release(1).unwrap(), Decided::Already);
}

/// A skipped event that nobody wants.
pub fn c109_a_skipped_event_is_discarded(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    case.apply_with(Plan::poison(&["bad"]), skipping(), &feed.events(0, &["bad", "a"]));
    assert_eq!(discard(world, 1).unwrap(), Decided::Done);
    assert!(list(world, Filter::default()).is_empty());
    assert_eq!(discard(world, 1).unwrap(), Decided::Already);
}

/// Q1 in one snapshot after every kind of step.
pub fn c110_the_books_add_up_at_every_step(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    let letters = world.letters();
    let check = || {
        for books in block_on(letters.books()).unwrap() {
            assert_eq!(books.ledger.sum(), books.hw.cast_signed(), "{books:?}");
        }
    };
    let mut entries = feed.events(0, &["bad", "a", "bad", "worse"]);
    entries.push(feed.void(0));
    case.apply(Plan::poison(&["bad", "worse"]), &entries);
    check();
    case.apply_with(
        Plan::poison(&["sick"]),
        skipping(),
        &feed.events(0, &["sick", "bad"]),
    );
    check();
    discard(world, 4).unwrap();
    check();
    case.retry(Plan::fine(), Options::default(), MINUTE);
    check();
    block_on(letters.release(id(0, 6), "mended".into(), at(1))).unwrap();
    check();
    case.retry(Plan::fine(), Options::default(), MINUTE);
    check();
    let books = block_on(letters.books()).unwrap()[0];
    let tally = books.ledger.tally;
    assert_eq!(
        (books.hw, tally.applied, tally.voids, books.ledger.discarded),
        (7, 5, 1, 1)
    );
}

/// Fails while told to, or at one number; remembers what it took.
#[derive(Default)]
struct Sink {
    broken: Mutex<bool>,
    refuses: Option<u64>,
    calls: Mutex<u32>,
    taken: Mutex<Vec<Detail>>,
}

impl DeadLetterSink for Sink {
    fn accept<'a>(&'a self, letter: &'a Detail) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            *self.calls.lock().unwrap() += 1;
            if *self.broken.lock().unwrap() || self.refuses == Some(letter.letter.id.n) {
                return Err(Error::new(Code::StoreUnavailable, "the sink"));
            }
            self.taken.lock().unwrap().push(letter.clone());
            Ok(())
        })
    }
}

impl Sink {
    /// Until nothing is left.
    fn rounds(&self, courier: &mut Courier, letters: &dyn DeadLetters, now: u64) -> usize {
        let rounds = std::iter::repeat_with(|| self.round(courier, letters, now).unwrap());
        rounds.take_while(|taken| *taken > 0).sum()
    }

    fn round(&self, courier: &mut Courier, letters: &dyn DeadLetters, now: u64) -> Result<usize> {
        let now = Ticks::default().after(Duration::from_secs(now));
        block_on(courier.round(letters, self, None, now))
    }
}

/// B12: the letter stays where it is; the sink is offered it again after a pause, once it works exactly once each.
pub fn c111_a_failing_sink_drops_nothing_and_is_not_retried_hot(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad", "worse"]);
    case.apply_with(
        Plan::poison(&["skip"]),
        skipping(),
        &feed.events(0, &["skip", "a"]),
    );
    let (sink, mut courier, letters) = (Sink::default(), Courier::default(), world.letters());
    *sink.broken.lock().unwrap() = true;
    let before = world.snapshot();
    assert!(sink.round(&mut courier, &*letters, 0).is_err());
    assert_eq!(sink.round(&mut courier, &*letters, 0).unwrap(), 0);
    assert_eq!(*sink.calls.lock().unwrap(), 1, "not retried hot");
    assert!(sink.round(&mut courier, &*letters, 1).is_err());
    assert_eq!(
        sink.round(&mut courier, &*letters, 2).unwrap(),
        0,
        "the pause has doubled"
    );
    assert_eq!(world.snapshot(), before, "nothing is dropped");
    *sink.broken.lock().unwrap() = false;
    assert_eq!(sink.rounds(&mut courier, &*letters, 9), 3);
    assert_eq!(sink.round(&mut courier, &*letters, 99).unwrap(), 0, "once each");
    let mut taken: Vec<u64> = sink.taken.lock().unwrap().iter().map(|d| d.letter.id.n).collect();
    taken.sort_unstable();
    assert_eq!(taken, vec![1, 2, 3]);
    assert_eq!(
        list(world, Filter::default()).len(),
        3,
        "still here, for the redrive"
    );
}

/// A redrive that fails again is news.
pub fn c112_a_key_that_dies_again_is_told_again(world: &dyn World) {
    let case = dead(world, &mut Feed::default(), &["bad"]);
    let (sink, mut courier, letters) = (Sink::default(), Courier::default(), world.letters());
    assert_eq!(sink.round(&mut courier, &*letters, 0).unwrap(), 1);
    redrive(world, Which::All, at(1)).unwrap();
    assert_eq!(sink.round(&mut courier, &*letters, 0).unwrap(), 0);
    case.retry(Plan::poison(&["bad"]), strict(), MINUTE);
    assert_eq!(sink.round(&mut courier, &*letters, 0).unwrap(), 1);
}

/// The letter was taken while somebody redrove its event: what is marked is that death, not the next.
pub fn c114_a_mark_is_for_one_death(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad"]);
    case.apply_with(Plan::poison(&["skip"]), skipping(), &[feed.event(0, "skip")]);
    let letters = world.letters();
    let untold = || block_on(letters.untold(Untold::default())).unwrap();
    let taken = told(&untold());
    assert_eq!(taken.len(), 2);
    redrive(world, Which::All, at(1)).unwrap();
    case.retry(Plan::poison(&["bad"]), strict(), MINUTE);
    block_on(letters.told(taken.clone())).unwrap();
    let again = told(&untold());
    assert_eq!(again.iter().map(|t| t.id.n).collect::<Vec<_>>(), [1]);
    assert_ne!(again[0], taken[0]);
    block_on(letters.told(again)).unwrap();
    assert!(untold().is_empty());
}

fn told(letters: &[Detail]) -> Vec<Told> {
    let told = |detail: &Detail| Told {
        id: detail.letter.id,
        failed_at: detail.letter.failed_at,
    };
    letters.iter().map(told).collect()
}

/// A letter that the sink never takes holds back no other, however many there are.
pub fn c115_a_refused_letter_holds_back_no_other(world: &dyn World) {
    let keys: Vec<String> = (0..40).map(|n| format!("bad-{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let case = Case::start(world);
    case.apply_with(
        Plan::each(|_| Act::Fail("cause")),
        strict(),
        &Feed::default().events(0, &keys),
    );
    let sink = Sink {
        refuses: Some(3),
        ..Sink::default()
    };
    let (mut courier, letters) = (Courier::default(), world.letters());
    let mut seconds = 0;
    while sink.taken.lock().unwrap().len() < 39 {
        // A refusal ends the round and is an error; the next begins behind it.
        let _ = sink.round(&mut courier, &*letters, seconds);
        seconds += 600;
        assert!(seconds < 600 * 20, "not all arrived");
    }
    let left = block_on(letters.untold(Untold::default())).unwrap();
    assert_eq!(left.iter().map(|d| d.letter.id.n).collect::<Vec<_>>(), [3]);
}

/// Letters come in pages, of some lanes only.
pub fn c116_letters_are_offered_by_lane_and_page(world: &dyn World) {
    let case = Case::start(world);
    let mut feed = Feed::default();
    for (slot, policy) in [(0, strict()), (1, skipping()), (2, strict())] {
        let keys = ["x", "y", "z"].map(|key| format!("{key}-{slot}"));
        let entries = feed.events(slot, &keys.each_ref().map(String::as_str));
        case.apply_with(Plan::each(|_| Act::Fail("cause")), policy, &entries);
    }
    let letters = world.letters();
    let page = |lanes: Option<Vec<u16>>, after: Option<&Detail>, limit| {
        let page = block_on(letters.untold(Untold {
            lanes: lanes.map(|slots| slots.into_iter().map(lane).collect()),
            after: after.map(|detail| (detail.letter.since, detail.letter.id)),
            limit,
        }));
        page.unwrap()
    };
    let all = page(None, None, 100);
    assert_eq!(all.len(), 9);
    let mut walked: Vec<Detail> = Vec::new();
    loop {
        let next = page(None, walked.last(), 2);
        if next.is_empty() {
            break;
        }
        walked.extend(next);
    }
    assert_eq!(walked, all, "each once, in the same order");
    let slots = |page: Vec<Detail>| -> Vec<u16> { page.iter().map(|d| d.letter.id.lane.slot).collect() };
    assert_eq!(slots(page(Some(vec![1, 2]), None, 100)), [1, 1, 1, 2, 2, 2]);
    assert_eq!(slots(page(Some(Vec::new()), None, 100)), [0; 0]);
}

/// The owner hears of a redrive at once.
pub fn c113_a_decision_rings_the_bell(world: &dyn World) {
    dead(world, &mut Feed::default(), &["bad"]);
    world.pass_time(TTL / 10);
    let inbox = world.inbox();
    let rung = inbox.rung();
    redrive(world, Which::All, at(1)).unwrap();
    block_on(rung);
}

pub fn c117_parked_keys_are_counted_by_state(world: &dyn World) {
    let mut feed = Feed::default();
    let case = dead(world, &mut feed, &["bad", "a", "bad"]);
    let retried = Options::default();
    case.apply_with(
        Plan::poison(&["worse"]),
        retried,
        &feed.events(1, &["worse", "b"]),
    );
    let count = || block_on(world.letters().parked_keys()).unwrap();
    let keys = ParkedKeys {
        retrying: 1,
        dead: 1,
        events: 3,
    };
    assert_eq!(count(), keys);
    discard(world, 1).unwrap();
    discard(world, 3).unwrap();
    let keys = ParkedKeys {
        retrying: 1,
        dead: 0,
        events: 1,
    };
    assert_eq!(count(), keys);
}
