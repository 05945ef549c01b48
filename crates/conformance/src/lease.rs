//! Leases and fence registers: what every store must do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::lease::{
    Acquire, Acquired, Nonce, Opened, Raised, Record, Released, Renewed, Scope, TTL_MAX, Term, Token,
};
use tidegate_core::memory::{self, Clock};
use tidegate_core::store::{BoxFuture, LeaseStore};
use tidegate_core::{Code, Result};
use tokio::runtime::Handle;

/// A store under test, on a clock that the suite moves. Wall time is the same clock.
pub trait Subject: Send + Sync {
    /// A handle; each call may open another, as another process would.
    fn store(&self) -> Arc<dyn LeaseStore>;

    /// The clock.
    fn clock(&self) -> Clock;

    /// Whether a guarded write under this term is accepted by the database that holds the fence registers.
    fn guarded<'a>(&'a self, scope: &'a Scope, token: Token, nonce: Nonce) -> BoxFuture<'a, Result<bool>>;
}

/// Makes a test of each case. `$subject` is an expression that makes a new subject.
#[macro_export]
macro_rules! lease_suite {
    ($subject:expr) => {
        $crate::lease_suite!(@each $subject;
            l_001_a_vacant_scope_is_granted_and_listed
            l_002_a_held_scope_is_busy_and_says_by_whom_and_for_how_long
            l_003_acquire_is_idempotent_by_nonce
            l_004_a_repeated_acquire_counts_a_whole_ttl_from_its_own_time
            l_005_a_lease_ends_exactly_at_its_ttl
            l_006_a_renewal_counts_the_recorded_ttl_from_its_own_time
            l_007_a_renewal_never_creates
            l_008_a_renewal_names_token_and_nonce
            l_009_renewals_are_answered_in_order
            l_010_renewing_nothing_answers_nothing
            l_011_a_release_leaves_a_vacant_record_that_keeps_its_token
            l_012_a_release_by_another_term_changes_nothing
            l_013_a_late_release_does_not_touch_the_next_term
            l_014_candidates_honour_the_recorded_ttl
            l_015_tokens_strictly_increase
            l_016_a_token_is_at_least_the_minimum_asked_for
            l_017_tokens_follow_the_clock_and_do_not_follow_it_back
            l_018_a_raise_replaces_the_token_of_a_held_lease
            l_019_a_raise_of_a_lease_that_is_not_held_is_refused
            l_020_a_broken_lease_is_vacant_at_once
            l_021_breaking_what_nobody_holds_answers_none
            l_022_the_list_is_in_order_and_tells_vacant_from_expired
            l_023_a_fence_opens_for_greater_tokens_and_for_its_own_nonce_only
            l_024_writes_are_accepted_under_the_term_that_opened_last
            l_025_fences_of_different_scopes_do_not_meet
            l_026_a_refused_holder_writes_after_one_raise
            l_027_a_release_rings
            l_028_a_break_rings
            l_029_of_many_that_ask_at_once_one_is_granted
            l_030_terms_never_overlap_in_a_crowd
            l_031_scopes_have_limits
            l_032_a_ttl_has_limits
            l_033_tokens_are_whole_up_to_2_53
            l_034_labels_have_limits_and_no_meaning
            l_035_every_handle_sees_the_same
            l_036_random_histories_equal_those_of_the_memory_store
        );
    };
    (@each $subject:expr; $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::lease::$case(&$subject).await;
                $crate::counts::add("conformance.lease.cases", 1);
            }
        )+
    };
}

const TTL: Duration = Duration::from_secs(10);
const A: Nonce = Nonce(0xa);
const B: Nonce = Nonce(0xb);

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

fn ask(name: &str, nonce: Nonce) -> Acquire {
    Acquire {
        scope: scope(name),
        nonce,
        ttl: TTL,
        min_token: Token(0),
        holder: format!("holder {:x}", nonce.0),
    }
}

fn term(name: &str, token: Token, nonce: Nonce) -> Term {
    Term {
        scope: scope(name),
        token,
        nonce,
        ttl: TTL,
    }
}

async fn granted(store: &dyn LeaseStore, ask: Acquire) -> Term {
    let (scope, nonce, ttl) = (ask.scope.clone(), ask.nonce, ask.ttl);
    match store.acquire(ask).await.unwrap() {
        Acquired::Granted(token) => Term {
            scope,
            token,
            nonce,
            ttl,
        },
        busy @ Acquired::Busy { .. } => panic!("{busy:?}"),
    }
}

async fn busy(store: &dyn LeaseStore, ask: Acquire) -> (Duration, String) {
    match store.acquire(ask).await.unwrap() {
        Acquired::Busy { remaining, holder } => (remaining, holder),
        granted @ Acquired::Granted(_) => panic!("{granted:?}"),
    }
}

async fn renewed(store: &dyn LeaseStore, term: &Term) -> Renewed {
    store.renew(vec![term.clone()]).await.unwrap()[0]
}

async fn record(store: &dyn LeaseStore, name: &str) -> Option<Record> {
    let all = store.list().await.unwrap();
    all.into_iter().find(|record| record.scope.as_str() == name)
}

pub async fn l_001_a_vacant_scope_is_granted_and_listed(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(store.list().await.unwrap(), []);
    let term = granted(&*store, ask("job", A)).await;
    let expected = Record {
        scope: scope("job"),
        token: term.token,
        holder: Some("holder a".into()),
        ttl: TTL,
        remaining: TTL,
    };
    assert_eq!(store.list().await.unwrap(), [expected]);
}

pub async fn l_002_a_held_scope_is_busy_and_says_by_whom_and_for_how_long(subject: &dyn Subject) {
    let store = subject.store();
    granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(4));
    let (remaining, holder) = busy(&*store, ask("job", B)).await;
    assert_eq!((remaining, holder.as_str()), (Duration::from_secs(6), "holder a"));
    granted(&*store, ask("another job", B)).await;
}

pub async fn l_003_acquire_is_idempotent_by_nonce(subject: &dyn Subject) {
    let store = subject.store();
    let first = granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(1));
    assert_eq!(granted(&*store, ask("job", A)).await, first);
}

pub async fn l_004_a_repeated_acquire_counts_a_whole_ttl_from_its_own_time(subject: &dyn Subject) {
    let store = subject.store();
    granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(9));
    granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(9));
    assert_eq!(busy(&*store, ask("job", B)).await.0, Duration::from_secs(1));
}

pub async fn l_005_a_lease_ends_exactly_at_its_ttl(subject: &dyn Subject) {
    let store = subject.store();
    let old = granted(&*store, ask("job", A)).await;
    subject.clock().advance(TTL.saturating_sub(micros(1)));
    assert_eq!(busy(&*store, ask("job", B)).await.0, micros(1));
    subject.clock().advance(micros(1));
    assert!(granted(&*store, ask("job", B)).await.token > old.token);
}

pub async fn l_006_a_renewal_counts_the_recorded_ttl_from_its_own_time(subject: &dyn Subject) {
    let store = subject.store();
    let mut mine = granted(&*store, ask("job", A)).await;
    // What counts is recorded; what a renewal brings along does not.
    mine.ttl = Duration::from_secs(999);
    subject.clock().advance(Duration::from_secs(9));
    assert_eq!(renewed(&*store, &mine).await, Renewed::Held);
    assert_eq!(record(&*store, "job").await.unwrap().remaining, TTL);
}

pub async fn l_007_a_renewal_never_creates(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(
        renewed(&*store, &term("nobody's", Token(1), A)).await,
        Renewed::Lost
    );
    assert_eq!(record(&*store, "nobody's").await, None);

    let expired = granted(&*store, ask("expired", A)).await;
    let vacant = granted(&*store, ask("vacant", A)).await;
    store.release(vacant.clone()).await.unwrap();
    assert_eq!(renewed(&*store, &vacant).await, Renewed::Lost);
    subject.clock().advance(TTL);
    assert_eq!(renewed(&*store, &expired).await, Renewed::Lost);
    for name in ["vacant", "expired"] {
        assert_eq!(record(&*store, name).await.unwrap().remaining, Duration::ZERO);
        granted(&*store, ask(name, B)).await;
    }
}

pub async fn l_008_a_renewal_names_token_and_nonce(subject: &dyn Subject) {
    let store = subject.store();
    let mine = granted(&*store, ask("job", A)).await;
    let tokens = [Token(mine.token.0 - 1), Token(mine.token.0 + 1)];
    for wrong in [
        term("job", tokens[0], A),
        term("job", tokens[1], A),
        term("job", mine.token, B),
    ] {
        assert_eq!(renewed(&*store, &wrong).await, Renewed::Lost, "{wrong:?}");
        let both = store.renew(vec![wrong, mine.clone()]).await.unwrap();
        assert_eq!(both, [Renewed::Lost, Renewed::Held], "each on its own");
    }
}

pub async fn l_009_renewals_are_answered_in_order(subject: &dyn Subject) {
    let store = subject.store();
    let mut terms = Vec::new();
    let mut expected = Vec::new();
    for n in 0..50u128 {
        let mut term = granted(&*store, ask(&format!("job {}", 97 * n % 50), Nonce(n))).await;
        let lost = n % 3 == 0;
        if lost {
            term.nonce = Nonce(1000 + n);
        }
        terms.push(term);
        expected.push(if lost { Renewed::Lost } else { Renewed::Held });
    }
    assert_eq!(store.renew(terms).await.unwrap(), expected);
}

pub async fn l_010_renewing_nothing_answers_nothing(subject: &dyn Subject) {
    assert_eq!(subject.store().renew(Vec::new()).await.unwrap(), []);
}

pub async fn l_011_a_release_leaves_a_vacant_record_that_keeps_its_token(subject: &dyn Subject) {
    let store = subject.store();
    let mine = granted(&*store, ask("job", A)).await;
    assert_eq!(store.release(mine.clone()).await.unwrap(), Released::Vacant);
    let vacant = record(&*store, "job").await.unwrap();
    assert_eq!(
        (vacant.token, vacant.holder, vacant.remaining),
        (mine.token, None, Duration::ZERO)
    );
    assert_eq!(store.release(mine.clone()).await.unwrap(), Released::NotHeld);
    let next = granted(&*store, ask("job", A)).await;
    assert!(next.token > mine.token, "the same nonce, but another term");
}

pub async fn l_012_a_release_by_another_term_changes_nothing(subject: &dyn Subject) {
    let store = subject.store();
    let mine = granted(&*store, ask("job", A)).await;
    let before = store.list().await.unwrap();
    for wrong in [
        term("job", mine.token, B),
        term("job", Token(mine.token.0 + 1), A),
        term("other", mine.token, A),
    ] {
        assert_eq!(store.release(wrong).await.unwrap(), Released::NotHeld);
    }
    assert_eq!(store.list().await.unwrap(), before);
}

pub async fn l_013_a_late_release_does_not_touch_the_next_term(subject: &dyn Subject) {
    let store = subject.store();
    let old = granted(&*store, ask("job", A)).await;
    subject.clock().advance(TTL);
    let new = granted(&*store, ask("job", B)).await;
    assert_eq!(store.release(old).await.unwrap(), Released::NotHeld);
    assert_eq!(renewed(&*store, &new).await, Renewed::Held);
}

pub async fn l_014_candidates_honour_the_recorded_ttl(subject: &dyn Subject) {
    let store = subject.store();
    granted(&*store, ask("job", A)).await;
    let hasty = Acquire {
        ttl: Duration::from_secs(1),
        ..ask("job", B)
    };
    subject.clock().advance(Duration::from_secs(9));
    assert_eq!(busy(&*store, hasty.clone()).await.0, Duration::from_secs(1));
    subject.clock().advance(Duration::from_secs(1));
    granted(&*store, hasty).await;
    subject.clock().advance(Duration::from_secs(1));
    granted(&*store, ask("job", A)).await;
}

pub async fn l_015_tokens_strictly_increase(subject: &dyn Subject) {
    let store = subject.store();
    let mut last = Token(0);
    for round in 0..20u128 {
        let mine = granted(&*store, ask("job", Nonce(round))).await;
        assert!(mine.token > last, "{} after {last}", mine.token);
        last = mine.token;
        match round % 3 {
            0 => subject.clock().advance(TTL),
            1 => assert_eq!(store.release(mine).await.unwrap(), Released::Vacant),
            _ => assert!(store.break_lease(scope("job")).await.unwrap().is_some()),
        }
    }
}

pub async fn l_016_a_token_is_at_least_the_minimum_asked_for(subject: &dyn Subject) {
    let store = subject.store();
    let least = |min_token| Acquire {
        min_token: Token(min_token),
        ..ask("job", A)
    };
    assert_eq!(granted(&*store, least(7_000)).await.token, Token(7_000));
    assert_eq!(
        granted(&*store, least(6_000)).await.token,
        Token(7_000),
        "confirmed"
    );
    assert_eq!(
        granted(&*store, least(8_000)).await.token,
        Token(8_000),
        "confirmed, and raised"
    );
}

pub async fn l_017_tokens_follow_the_clock_and_do_not_follow_it_back(subject: &dyn Subject) {
    let store = subject.store();
    subject.clock().advance(Duration::from_secs(1_000));
    let first = granted(&*store, ask("job", A)).await;
    assert_eq!(first.token, Token(1_000_000_000));
    store.release(first).await.unwrap();
    let second = granted(&*store, ask("job", B)).await;
    assert_eq!(second.token, Token(1_000_000_001), "the clock stood still");
}

pub async fn l_018_a_raise_replaces_the_token_of_a_held_lease(subject: &dyn Subject) {
    let store = subject.store();
    let old = granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(4));
    let raised = store.raise(old.clone(), Token(90_000_000)).await.unwrap();
    assert_eq!(raised, Raised::To(Token(90_000_001)));
    assert_eq!(
        record(&*store, "job").await.unwrap().remaining,
        Duration::from_secs(6),
        "not extended"
    );
    assert_eq!(renewed(&*store, &old).await, Renewed::Lost);
    let new = term("job", Token(90_000_001), A);
    assert_eq!(renewed(&*store, &new).await, Renewed::Held);
    let again = store.raise(new, Token(5)).await.unwrap();
    assert_eq!(again, Raised::To(Token(90_000_002)), "upwards in any case");
}

pub async fn l_019_a_raise_of_a_lease_that_is_not_held_is_refused(subject: &dyn Subject) {
    let store = subject.store();
    let mine = granted(&*store, ask("job", A)).await;
    for wrong in [
        term("nobody's", Token(1), A),
        term("job", mine.token, B),
        term("job", Token(mine.token.0 + 1), A),
    ] {
        assert_eq!(store.raise(wrong, Token(9)).await.unwrap(), Raised::NotHeld);
    }
    subject.clock().advance(TTL);
    assert_eq!(
        store.raise(mine.clone(), Token(9)).await.unwrap(),
        Raised::NotHeld
    );
    assert_eq!(record(&*store, "job").await.unwrap().token, mine.token);
}

pub async fn l_020_a_broken_lease_is_vacant_at_once(subject: &dyn Subject) {
    let store = subject.store();
    let mine = granted(&*store, ask("job", A)).await;
    subject.clock().advance(Duration::from_secs(4));
    let broken = store.break_lease(scope("job")).await.unwrap().unwrap();
    assert_eq!(broken.holder.as_deref(), Some("holder a"));
    assert_eq!(
        (broken.token, broken.remaining),
        (mine.token, Duration::from_secs(6))
    );
    assert_eq!(record(&*store, "job").await.unwrap().holder, None);
    assert_eq!(renewed(&*store, &mine).await, Renewed::Lost);
    assert!(granted(&*store, ask("job", B)).await.token > mine.token);
}

pub async fn l_021_breaking_what_nobody_holds_answers_none(subject: &dyn Subject) {
    let store = subject.store();
    assert_eq!(store.break_lease(scope("nobody's")).await.unwrap(), None);
    let mine = granted(&*store, ask("job", A)).await;
    store.release(mine).await.unwrap();
    assert_eq!(store.break_lease(scope("job")).await.unwrap(), None);
    assert_eq!(record(&*store, "nobody's").await, None);
}

pub async fn l_022_the_list_is_in_order_and_tells_vacant_from_expired(subject: &dyn Subject) {
    let store = subject.store();
    for name in ["é", "b", "a", "Z", "b/2", "expired"] {
        granted(&*store, ask(name, A)).await;
    }
    subject.clock().advance(TTL);
    let vacant = granted(&*store, ask("vacant", A)).await;
    store.release(vacant).await.unwrap();
    let list = store.list().await.unwrap();
    let names: Vec<_> = list.iter().map(|record| record.scope.as_str()).collect();
    assert_eq!(names, ["Z", "a", "b", "b/2", "expired", "vacant", "é"]);
    let seen = |name: &str| {
        let record = list.iter().find(|record| record.scope.as_str() == name).unwrap();
        (record.holder.as_deref(), record.remaining)
    };
    assert_eq!(seen("expired"), (Some("holder a"), Duration::ZERO));
    assert_eq!(seen("vacant"), (None, Duration::ZERO));
}

pub async fn l_023_a_fence_opens_for_greater_tokens_and_for_its_own_nonce_only(subject: &dyn Subject) {
    let store = subject.store();
    for (token, nonce, expected) in [
        (5, A, Opened::Open),
        (5, A, Opened::Open),
        (5, B, Opened::Refused(Token(5))),
        (4, A, Opened::Refused(Token(5))),
        (4, B, Opened::Refused(Token(5))),
        (6, B, Opened::Open),
        (6, A, Opened::Refused(Token(6))),
        (7, B, Opened::Open),
    ] {
        let opened = store.open_fence(scope("job"), Token(token), nonce).await.unwrap();
        assert_eq!(opened, expected, "{token} {nonce:?}");
    }
}

pub async fn l_024_writes_are_accepted_under_the_term_that_opened_last(subject: &dyn Subject) {
    let (store, job) = (subject.store(), scope("job"));
    let accepted = async |token, nonce| subject.guarded(&job, Token(token), nonce).await.unwrap();
    assert!(!accepted(5, A).await, "not before it opened");
    store.open_fence(job.clone(), Token(5), A).await.unwrap();
    assert!(accepted(5, A).await);
    assert!(!accepted(5, B).await && !accepted(6, A).await && !accepted(4, A).await);
    store.open_fence(job.clone(), Token(6), B).await.unwrap();
    assert!(accepted(6, B).await && !accepted(5, A).await);
    store.open_fence(job.clone(), Token(5), A).await.unwrap();
    assert!(accepted(6, B).await, "a refused open changes nothing");
}

pub async fn l_025_fences_of_different_scopes_do_not_meet(subject: &dyn Subject) {
    let store = subject.store();
    store.open_fence(scope("one"), Token(900), A).await.unwrap();
    assert_eq!(
        store.open_fence(scope("two"), Token(1), B).await.unwrap(),
        Opened::Open
    );
    assert!(subject.guarded(&scope("one"), Token(900), A).await.unwrap());
    assert_eq!(store.list().await.unwrap(), [], "a register is not a lease");
}

pub async fn l_026_a_refused_holder_writes_after_one_raise(subject: &dyn Subject) {
    let (store, job) = (subject.store(), scope("job"));
    store.open_fence(job.clone(), Token(77), B).await.unwrap();
    let mine = granted(&*store, ask("job", A)).await;
    let opened = store.open_fence(job.clone(), mine.token, A).await.unwrap();
    let Opened::Refused(register) = opened else {
        panic!("{opened:?}")
    };
    let raised = store.raise(mine, register).await.unwrap();
    let Raised::To(token) = raised else {
        panic!("{raised:?}")
    };
    assert_eq!(
        store.open_fence(job.clone(), token, A).await.unwrap(),
        Opened::Open
    );
    assert!(subject.guarded(&job, token, A).await.unwrap());
}

pub async fn l_027_a_release_rings(subject: &dyn Subject) {
    let (store, other) = (subject.store(), subject.store());
    let mine = granted(&*store, ask("job", A)).await;
    let mut rung = quiet_bell(&*other).await;
    store.release(mine).await.unwrap();
    rung.as_mut().await;
}

pub async fn l_028_a_break_rings(subject: &dyn Subject) {
    let (store, other) = (subject.store(), subject.store());
    granted(&*store, ask("job", A)).await;
    let mut rung = quiet_bell(&*other).await;
    store.break_lease(scope("job")).await.unwrap();
    rung.as_mut().await;
}

/// A bell that does not ring for what happened before.
async fn quiet_bell(store: &dyn LeaseStore) -> BoxFuture<'_, ()> {
    loop {
        let mut rung = store.rung();
        // Time for a bell that looks for changes to have looked.
        for _ in 0..20 {
            store.list().await.unwrap();
        }
        if rung.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            return rung;
        }
    }
}

pub async fn l_029_of_many_that_ask_at_once_one_is_granted(subject: &dyn Subject) {
    let (wins, runtime) = (AtomicU64::new(0), Handle::current());
    std::thread::scope(|crowd| {
        for n in 0..16 {
            let (store, wins, runtime) = (subject.store(), &wins, &runtime);
            crowd.spawn(move || {
                let asked = runtime.block_on(store.acquire(ask("job", Nonce(n))));
                if let Acquired::Granted(_) = asked.unwrap() {
                    wins.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
    assert!(record(&*subject.store(), "job").await.unwrap().holder.is_some());
}

pub async fn l_030_terms_never_overlap_in_a_crowd(subject: &dyn Subject) {
    let (inside, last) = (AtomicBool::new(false), AtomicU64::new(0));
    let runtime = Handle::current();
    std::thread::scope(|crowd| {
        for n in 0..4 {
            let (store, inside, last, runtime) = (subject.store(), &inside, &last, &runtime);
            crowd.spawn(move || {
                for round in 0..10 {
                    let mine = runtime.block_on(eventually(&*store, Nonce(100 * n + round)));
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at once");
                    assert!(last.swap(mine.token.0, Ordering::SeqCst) < mine.token.0);
                    assert_eq!(runtime.block_on(renewed(&*store, &mine)), Renewed::Held);
                    inside.store(false, Ordering::SeqCst);
                    assert_eq!(runtime.block_on(store.release(mine)).unwrap(), Released::Vacant);
                }
            });
        }
    });
    let left = record(&*subject.store(), "job").await.unwrap();
    assert_eq!((left.holder, left.token.0), (None, last.into_inner()));
}

async fn eventually(store: &dyn LeaseStore, nonce: Nonce) -> Term {
    loop {
        if let Acquired::Granted(token) = store.acquire(ask("job", nonce)).await.unwrap() {
            return term("job", token, nonce);
        }
        std::thread::yield_now();
    }
}

pub async fn l_031_scopes_have_limits(subject: &dyn Subject) {
    let store = subject.store();
    for refused in ["", "a\0b", "\n", &"x".repeat(201), &"é".repeat(101)] {
        assert_eq!(
            Scope::new(refused).unwrap_err().code(),
            Code::EventInvalid,
            "{refused:?}"
        );
    }
    for name in [
        "x",
        " ",
        "it's \"quoted\"; --",
        "日本",
        &"x".repeat(200),
        &"é".repeat(100),
    ] {
        let mine = granted(&*store, ask(name, A)).await;
        assert_eq!(renewed(&*store, &mine).await, Renewed::Held, "{name:?}");
        assert_eq!(
            store.open_fence(scope(name), mine.token, A).await.unwrap(),
            Opened::Open
        );
        assert!(subject.guarded(&scope(name), mine.token, A).await.unwrap());
    }
    assert_eq!(store.list().await.unwrap().len(), 6);
}

pub async fn l_032_a_ttl_has_limits(subject: &dyn Subject) {
    let store = subject.store();
    let lasting = |ttl| Acquire { ttl, ..ask("job", A) };
    for refused in [Duration::ZERO, TTL_MAX + micros(1), Duration::MAX] {
        let error = store.acquire(lasting(refused)).await.unwrap_err();
        assert_eq!(error.code(), Code::OptionsInvalid);
        assert!(error.context().contains("ttl"), "{error}");
    }
    assert_eq!(store.list().await.unwrap(), []);
    granted(&*store, lasting(micros(1))).await;
    assert_eq!(record(&*store, "job").await.unwrap().ttl, micros(1));
    granted(&*store, lasting(TTL_MAX)).await;
    assert_eq!(record(&*store, "job").await.unwrap().remaining, TTL_MAX);
}

pub async fn l_033_tokens_are_whole_up_to_2_53(subject: &dyn Subject) {
    let store = subject.store();
    let largest = Token(Token::MAX - 1);
    let least = |min_token| Acquire {
        min_token,
        ..ask("job", A)
    };
    let mine = granted(&*store, least(largest)).await;
    assert_eq!(mine.token, largest);
    assert_eq!(record(&*store, "job").await.unwrap().token, largest);
    assert_eq!(renewed(&*store, &mine).await, Renewed::Held);
    assert_eq!(
        store.open_fence(scope("job"), largest, A).await.unwrap(),
        Opened::Open
    );
    for token in [Token(Token::MAX), Token(u64::MAX)] {
        let code = async |reply: Result<()>| reply.unwrap_err().code();
        let asked = store.acquire(least(token)).await.map(drop);
        assert_eq!(code(asked).await, Code::OptionsInvalid);
        let raised = store.raise(mine.clone(), token).await.map(drop);
        assert_eq!(code(raised).await, Code::OptionsInvalid);
        let opened = store.open_fence(scope("job"), token, A).await.map(drop);
        assert_eq!(code(opened).await, Code::OptionsInvalid);
    }
}

pub async fn l_034_labels_have_limits_and_no_meaning(subject: &dyn Subject) {
    let store = subject.store();
    let labelled = |holder: &str, nonce| Acquire {
        holder: holder.into(),
        ..ask("job", nonce)
    };
    for refused in ["a\0b", "\n", &"x".repeat(201)] {
        let error = store.acquire(labelled(refused, A)).await.unwrap_err();
        assert_eq!(error.code(), Code::EventInvalid);
    }
    granted(&*store, labelled(&"x".repeat(200), A)).await;
    granted(&*store, labelled("", A)).await;
    assert_eq!(record(&*store, "job").await.unwrap().holder.as_deref(), Some(""));
    busy(&*store, labelled("", B)).await;
}

pub async fn l_035_every_handle_sees_the_same(subject: &dyn Subject) {
    let (one, two) = (subject.store(), subject.store());
    let mine = granted(&*one, ask("job", A)).await;
    busy(&*two, ask("job", B)).await;
    assert_eq!(renewed(&*two, &mine).await, Renewed::Held);
    assert_eq!(two.release(mine).await.unwrap(), Released::Vacant);
    granted(&*one, ask("job", B)).await;
    assert_eq!(one.list().await.unwrap(), two.list().await.unwrap());
}

pub async fn l_036_random_histories_equal_those_of_the_memory_store(subject: &dyn Subject) {
    let histories = crate::counts::budget("TIDEGATE_HISTORIES", 60);
    let store = subject.store();
    // The same clock, so that every reply must be equal, tokens and times included.
    let specification = memory::lease::Leases::new(subject.clock());
    for seed in 0..histories {
        let mut history = History::new(seed);
        for step in 0..40 {
            let operation = history.next();
            subject.clock().advance(operation.pause());
            let (expected, got) = (operation.run(&specification).await, operation.run(&*store).await);
            assert_eq!(got, expected, "history {seed}, step {step}: {operation:?}");
            history.learn(&expected);
        }
    }
    assert_eq!(store.list().await.unwrap(), specification.list().await.unwrap());
    crate::counts::add("conformance.lease.histories", histories);
}

#[derive(Debug, Clone)]
enum Operation {
    Pause(Duration),
    Acquire(Acquire),
    Renew(Vec<Term>),
    Release(Term),
    Raise(Term, Token),
    Break(Scope),
    Open(Scope, Token, Nonce),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Nothing,
    Acquired(Acquired),
    Renewed(Vec<Renewed>),
    Released(Released),
    Raised(Raised),
    Broken(Option<Record>),
    Opened(Opened),
}

impl Operation {
    fn pause(&self) -> Duration {
        match self {
            Operation::Pause(pause) => *pause,
            _ => Duration::ZERO,
        }
    }

    async fn run(&self, store: &dyn LeaseStore) -> Answer {
        match self.clone() {
            Operation::Pause(_) => Answer::Nothing,
            Operation::Acquire(ask) => Answer::Acquired(store.acquire(ask).await.unwrap()),
            Operation::Renew(terms) => Answer::Renewed(store.renew(terms).await.unwrap()),
            Operation::Release(term) => Answer::Released(store.release(term).await.unwrap()),
            Operation::Raise(term, above) => Answer::Raised(store.raise(term, above).await.unwrap()),
            Operation::Break(scope) => Answer::Broken(store.break_lease(scope).await.unwrap()),
            Operation::Open(scope, token, nonce) => {
                Answer::Opened(store.open_fence(scope, token, nonce).await.unwrap())
            }
        }
    }
}

/// Draws operations that often meet: two scopes, three nonces, tokens near the ones seen.
struct History {
    random: fastrand::Rng,
    seed: u64,
    tokens: Vec<Token>,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            seed,
            tokens: vec![Token(1)],
        }
    }

    fn next(&mut self) -> Operation {
        match self.random.u8(0..14) {
            0..3 => Operation::Pause(Duration::from_secs(self.random.u64(0..5))),
            3..7 => Operation::Acquire(Acquire {
                scope: self.scope(),
                nonce: self.nonce(),
                ttl: Duration::from_secs(self.random.u64(1..6)),
                min_token: if self.random.u8(0..4) == 0 {
                    self.token()
                } else {
                    Token(0)
                },
                holder: format!("h{}", self.random.u8(0..3)),
            }),
            7..9 => Operation::Renew((0..self.random.usize(0..4)).map(|_| self.term()).collect()),
            9 => Operation::Release(self.term()),
            10 => Operation::Raise(self.term(), self.token()),
            11 => Operation::Break(self.scope()),
            _ => Operation::Open(self.scope(), self.token(), self.nonce()),
        }
    }

    fn learn(&mut self, answer: &Answer) {
        if let Answer::Acquired(Acquired::Granted(token)) | Answer::Raised(Raised::To(token)) = answer {
            self.tokens.push(*token);
        }
    }

    fn scope(&mut self) -> Scope {
        scope(&format!("{}/{}", self.seed, self.random.u8(0..2)))
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(self.random.u128(1..4))
    }

    fn token(&mut self) -> Token {
        let seen = self.tokens[self.tokens.len() - 1 - self.random.usize(0..self.tokens.len().min(3))];
        Token(seen.0.saturating_sub(1) + self.random.u64(0..3))
    }

    fn term(&mut self) -> Term {
        let token = *self.tokens.last().unwrap();
        let token = if self.random.u8(0..4) == 0 {
            self.token()
        } else {
            token
        };
        Term {
            scope: self.scope(),
            token,
            nonce: self.nonce(),
            ttl: TTL,
        }
    }
}
