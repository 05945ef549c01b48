//! The loop, its guards and its handles over the memory store in real time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_core::lease::{
    Acquire, Acquired, Nonce, Opened, Raised, Record, Released, Renewed, Scope, Term, Token,
};
use tidegate_core::memory::{self, Clock};
use tidegate_core::store::{BoxFuture, Doorbell, LeaseStore};
use tidegate_core::{Code, Effect, Error, Result};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{Change, Guard, Leases};

/// Long enough that a busy machine renews in time.
const TTL: Duration = Duration::from_secs(2);
/// Generous, so that a busy machine fails no test; what must be quick is measured where it matters.
const PATIENCE: Duration = Duration::from_secs(10);

/// The memory store on the real clock, with faults.
struct Shop {
    store: memory::lease::Leases,
    clock: Clock,
    last: Mutex<Instant>,
    down: AtomicBool,
    bell_panics: AtomicBool,
    renew_calls: AtomicU64,
}

impl Shop {
    fn new() -> Arc<Self> {
        let clock = Clock::default();
        Arc::new(Self {
            store: memory::lease::Leases::new(clock.clone()),
            clock,
            last: Mutex::new(Instant::now()),
            down: AtomicBool::new(false),
            bell_panics: AtomicBool::new(false),
            renew_calls: AtomicU64::new(0),
        })
    }

    fn up(&self) -> Result<&memory::lease::Leases> {
        let mut last = self.last.lock().unwrap();
        let now = Instant::now();
        self.clock.advance(now - *last);
        *last = now;
        if self.down.load(Ordering::SeqCst) {
            return Err(Error::new(Code::StoreUnavailable, "closed"));
        }
        Ok(&self.store)
    }

    async fn lead(self: &Arc<Self>, scope: &str) -> Option<Record> {
        let all = self.list().await.unwrap();
        all.into_iter().find(|record| {
            record.scope.as_str() == scope && !record.remaining.is_zero() && record.holder.is_some()
        })
    }
}

impl Doorbell for Shop {
    fn rung(&self) -> BoxFuture<'_, ()> {
        assert!(!self.bell_panics.load(Ordering::SeqCst), "the bell fell down");
        self.store.rung()
    }
}

impl LeaseStore for Shop {
    fn acquire(&self, ask: Acquire) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(async move { self.up()?.acquire(ask).await })
    }

    fn renew(&self, terms: Vec<Term>) -> BoxFuture<'_, Result<Vec<Renewed>>> {
        self.renew_calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { self.up()?.renew(terms).await })
    }

    fn release(&self, term: Term) -> BoxFuture<'_, Result<Released>> {
        Box::pin(async move { self.up()?.release(term).await })
    }

    fn raise(&self, term: Term, above: Token) -> BoxFuture<'_, Result<Raised>> {
        Box::pin(async move { self.up()?.raise(term, above).await })
    }

    fn break_lease(&self, scope: Scope) -> BoxFuture<'_, Result<Option<Record>>> {
        Box::pin(async move { self.up()?.break_lease(scope).await })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Record>>> {
        Box::pin(async move { self.up()?.list().await })
    }

    fn open_fence(&self, scope: Scope, token: Token, nonce: Nonce) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(async move { self.up()?.open_fence(scope, token, nonce).await })
    }
}

fn leases(shop: &Arc<Shop>) -> Leases {
    Leases::new(shop.clone()).ttl(TTL)
}

/// Work that hands its guard out and runs until it is cancelled.
fn working(guards: mpsc::UnboundedSender<Guard>) -> impl Fn(Guard) -> BoxFuture<'static, Result<()>> {
    move |guard| {
        guards.send(guard.clone()).unwrap();
        Box::pin(async move {
            guard.cancelled().await;
            Ok(())
        })
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

async fn next(guards: &mut mpsc::UnboundedReceiver<Guard>) -> Guard {
    soon(guards.recv()).await.unwrap()
}

fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

// Scoped runs.

#[tokio::test]
async fn a_scoped_run_returns_the_value_and_has_released() {
    let shop = Shop::new();
    let here = leases(&shop);
    let run = here.with("job", |guard| async move {
        assert!(guard.check());
        guard.token()
    });
    let token = run.await.unwrap();
    let record = shop.list().await.unwrap().remove(0);
    assert_eq!((record.token, record.holder), (token, None));
    let next = leases(&shop)
        .try_with("job", async |guard: Guard| guard.token())
        .await;
    assert!(next.unwrap() > token);
}

#[tokio::test]
async fn a_scoped_run_that_loses_its_lease_fails_and_drops_its_value() {
    let shop = Shop::new();
    let here = leases(&shop);
    let broken = here.with("job", async |guard: Guard| {
        shop.break_lease(scope("job")).await.unwrap();
        guard.cancelled().await;
        "done"
    });
    let error = soon(broken).await.unwrap_err();
    assert_eq!((error.code(), error.effect()), (Code::LeaseLost, Effect::Unknown));
    assert!(
        shop.lead("job").await.is_none(),
        "it did not take the lease again"
    );
}

#[tokio::test]
async fn work_that_ignores_the_loss_is_dropped_within_its_budget() {
    let shop = Shop::new();
    let here = leases(&shop);
    let deaf = here.with("job", async |_| {
        shop.break_lease(scope("job")).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(soon(deaf).await.unwrap_err().code(), Code::LeaseLost);
}

#[tokio::test]
async fn a_panic_in_the_work_releases() {
    let shop = Shop::new();
    let panics = leases(&shop);
    let task = tokio::spawn(async move { panics.with("job", async |_| panic!("boom")).await });
    assert!(task.await.unwrap_err().is_panic());
    let began = Instant::now();
    soon(leases(&shop).with("job", async |_| ())).await.unwrap();
    assert!(began.elapsed() < TTL, "released, not expired");
}

#[tokio::test]
async fn dropping_a_scoped_run_releases() {
    let shop = Shop::new();
    let here = leases(&shop);
    let endless = here.with("job", async |_| std::future::pending::<()>().await);
    assert!(timeout(Duration::from_millis(50), endless).await.is_err());
    let began = Instant::now();
    soon(leases(&shop).with("job", async |_| ())).await.unwrap();
    assert!(began.elapsed() < TTL);
}

#[tokio::test]
async fn a_run_that_does_not_wait_says_who_holds_the_lease() {
    let shop = Shop::new();
    let holder = leases(&shop).holder("host 7");
    holder
        .with("job", async |_| {
            let error = leases(&shop).try_with("job", async |_| ()).await.unwrap_err();
            assert_eq!(error.code(), Code::LeaseBusy);
            assert!(error.context().contains("host 7"), "{error}");
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_run_that_does_not_wait_tells_of_a_store_that_is_down() {
    let shop = Shop::new();
    shop.down.store(true, Ordering::SeqCst);
    let error = leases(&shop).try_with("job", async |_| ()).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
}

#[tokio::test]
async fn what_waiting_cannot_cure_is_an_error_at_once() {
    let shop = Shop::new();
    let code = |result: Result<()>| result.unwrap_err().code();
    let short = leases(&shop).ttl(Duration::from_millis(10));
    assert_eq!(code(short.with("job", async |_| ()).await), Code::OptionsInvalid);
    assert_eq!(
        code(leases(&shop).with("a\0b", async |_| ()).await),
        Code::EventInvalid
    );
    let label = leases(&shop).holder("x".repeat(201));
    assert_eq!(
        code(soon(label.with("job", async |_| ())).await),
        Code::EventInvalid
    );
}

// Campaigns.

#[tokio::test]
async fn l9_a_stopped_campaign_hands_over_at_once() {
    let shop = Shop::new();
    let (guards, mut seen) = mpsc::unbounded_channel();
    let one = leases(&shop).campaign("job", working(guards.clone())).unwrap();
    let two = leases(&shop).campaign("job", working(guards)).unwrap();
    one.start();
    let first = next(&mut seen).await;
    two.start();
    sleep(Duration::from_millis(100)).await;
    assert!(seen.try_recv().is_err(), "one at a time");

    let began = Instant::now();
    assert!(one.stop(PATIENCE).await.cleanly);
    let second = next(&mut seen).await;
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    assert!(!first.check() && second.check());
    assert!(second.token() > first.token());
    assert_eq!((one.status().held, two.status().held), (0, 1));
}

#[tokio::test]
async fn l1_a_stopping_campaign_holds_the_lease_until_its_work_has_ended() {
    let shop = Shop::new();
    let (guards, mut seen) = mpsc::unbounded_channel();
    let slow = move |guard: Guard| {
        let guards = guards.clone();
        async move {
            guards.send(guard.clone()).unwrap();
            guard.cancelled().await;
            sleep(TTL + TTL / 4).await;
            assert!(guard.check(), "renewed while it drains");
            Ok(())
        }
    };
    let campaign = leases(&shop).campaign("job", slow).unwrap();
    campaign.start();
    next(&mut seen).await;
    let drained = campaign.stop(PATIENCE).await;
    assert!(drained.cleanly && drained.took > TTL);
    assert!(shop.lead("job").await.is_none());
}

#[tokio::test]
async fn l9_a_campaign_that_lost_its_lease_takes_it_again_and_tells() {
    let shop = Shop::new();
    let (guards, mut seen) = mpsc::unbounded_channel();
    let changes = Arc::new(Mutex::new(Vec::new()));
    let told = changes.clone();
    let hooked = leases(&shop).on_change(move |_, change| told.lock().unwrap().push(change));
    let campaign = hooked.campaign("job", working(guards)).unwrap();
    campaign.start();
    let first = next(&mut seen).await;
    shop.break_lease(scope("job")).await.unwrap();
    let second = next(&mut seen).await;
    assert!(!first.check() && second.token() > first.token());
    campaign.stop(PATIENCE).await;
    let mut changes = changes.lock().unwrap().clone();
    changes.retain(|change| !matches!(change, Change::Renewed(_)));
    let (first, second) = (first.token(), second.token());
    assert_eq!(
        changes,
        [
            Change::Acquired(first),
            Change::Lost(first),
            Change::Reacquired(second)
        ]
    );
}

#[tokio::test]
async fn a_hook_that_panics_disturbs_nothing() {
    let shop = Shop::new();
    let (changes, mut told) = mpsc::unbounded_channel();
    let hooked = leases(&shop).on_change(move |_, change| {
        changes.send(change).unwrap();
        panic!("hook");
    });
    let (guards, _seen) = mpsc::unbounded_channel();
    let campaign = hooked.campaign("job", working(guards)).unwrap();
    campaign.start();
    let mut changes = Vec::new();
    while changes.len() < 3 {
        changes.push(soon(told.recv()).await.unwrap());
    }
    assert!(matches!(
        changes[..],
        [Change::Acquired(_), Change::Renewed(_), Change::Renewed(_)]
    ));
    assert!(campaign.stop(PATIENCE).await.cleanly);
}

#[tokio::test]
async fn a_campaign_whose_work_fails_or_panics_releases_and_begins_again() {
    let shop = Shop::new();
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let campaign = leases(&shop)
        .campaign("job", move |_| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match run {
                    0 => Err(Error::new(Code::HandlerFailed, "first")),
                    1 => panic!("second"),
                    _ => Ok(()),
                }
            }
        })
        .unwrap();
    assert_eq!(soon(campaign.run_once()).await.unwrap(), 3, "terms");
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert!(shop.lead("job").await.is_none());
}

#[tokio::test]
async fn l9_the_renewals_of_a_process_are_one_round_trip() {
    let shop = Shop::new();
    let leases = leases(&shop);
    let (guards, mut seen) = mpsc::unbounded_channel();
    let mut campaigns = Vec::new();
    let mut held = Vec::new();
    for n in 0..20 {
        let campaign = leases
            .campaign(format!("job {n}"), working(guards.clone()))
            .unwrap();
        campaign.start();
        campaigns.push(campaign);
        sleep(Duration::from_millis(5)).await;
        held.push(next(&mut seen).await);
    }
    sleep(TTL).await;
    let before = shop.renew_calls.load(Ordering::SeqCst);
    sleep(2 * TTL).await;
    let rounds = shop.renew_calls.load(Ordering::SeqCst) - before;
    assert!(held.iter().all(Guard::check));
    assert!(
        rounds <= 20,
        "{rounds} rounds; 20 leases renewed apart would need 120"
    );
}

// The store is down.

#[tokio::test]
async fn l10_work_goes_on_until_trust_ends_and_is_then_cancelled() {
    let shop = Shop::new();
    let (guards, mut seen) = mpsc::unbounded_channel();
    let campaign = leases(&shop).campaign("job", working(guards)).unwrap();
    campaign.start();
    let guard = next(&mut seen).await;
    shop.down.store(true, Ordering::SeqCst);
    let began = Instant::now();
    soon(guard.cancelled()).await;
    let took = began.elapsed();
    assert!(took > TTL / 2, "one failure is no loss: {took:?}");
    assert!(!guard.check());
    shop.down.store(false, Ordering::SeqCst);
    assert!(next(&mut seen).await.check());
}

#[tokio::test]
async fn l10_work_that_notices_the_end_of_trust_by_itself_has_not_finished() {
    let shop = Shop::new();
    let (guards, mut seen) = mpsc::unbounded_channel();
    let polling = move |guard: Guard| {
        let guards = guards.clone();
        async move {
            guards.send(guard.clone()).unwrap();
            // Blocks its thread, so that it sees the end of trust first.
            while guard.check() {
                std::thread::yield_now();
            }
            Ok(())
        }
    };
    let campaign = leases(&shop).campaign("job", polling).unwrap();
    campaign.start();
    next(&mut seen).await;
    next(&mut seen).await;
    drop(campaign);
}

#[tokio::test]
async fn checking_a_guard_costs_next_to_nothing() {
    let here = leases(&Shop::new());
    let run = here.with("job", async |guard: Guard| {
        let began = Instant::now();
        for _ in 0..100_000 {
            std::hint::black_box(guard.check());
        }
        began.elapsed() / 100_000
    });
    let each = run.await.unwrap();
    println!("{each:?} a check");
    // 50 ns when optimised; this is what a debug build on a busy machine keeps.
    assert!(each < Duration::from_micros(5), "{each:?}");
}

// A loop that panics.

#[tokio::test]
async fn a_loop_that_panics_renews_nothing_and_drops_its_work() {
    let shop = Shop::new();
    let here = leases(&shop);
    let run = here.with("job", async |_guard: Guard| {
        shop.bell_panics.store(true, Ordering::SeqCst);
        ring(&shop).await;
        std::future::pending::<()>().await;
    });
    let error = soon(run).await.unwrap_err();
    assert_eq!(error.code(), Code::LeaseLost);
    let calls = shop.renew_calls.load(Ordering::SeqCst);
    sleep(TTL + TTL / 4).await;
    assert_eq!(shop.renew_calls.load(Ordering::SeqCst), calls);
    assert!(shop.lead("job").await.is_none(), "expired");
}

/// Rings, so that every loop asks for the next bell.
async fn ring(shop: &Arc<Shop>) {
    let ask = Acquire {
        scope: scope("bell"),
        nonce: Nonce(1),
        ttl: TTL,
        min_token: Token(0),
        holder: String::new(),
    };
    shop.acquire(ask).await.unwrap();
    shop.break_lease(scope("bell")).await.unwrap();
}

// Fences.

#[tokio::test]
async fn l5_a_refused_guard_raises_its_token_and_opens() {
    let shop = Shop::new();
    let ahead = Token(1 << 50);
    shop.open_fence(scope("job"), ahead, Nonce(9)).await.unwrap();
    leases(&shop)
        .with("job", async |guard: Guard| {
            let token = guard.open_fence(&*shop).await.unwrap();
            assert!(token > ahead && guard.token() == token);
            assert!(shop.store.check_fence(&scope("job"), token, guard.nonce()));
            sleep(TTL).await;
            assert!(guard.check(), "renewed under the new token");
        })
        .await
        .unwrap();
    assert!(shop.lead("job").await.is_none(), "released under the new token");
}

#[tokio::test]
async fn l5_a_refused_guard_whose_lease_is_gone_is_lost() {
    let shop = Shop::new();
    shop.open_fence(scope("job"), Token(1 << 50), Nonce(9))
        .await
        .unwrap();
    let here = leases(&shop);
    let run = here.with("job", async |guard: Guard| {
        shop.break_lease(scope("job")).await.unwrap();
        guard.open_fence(&*shop).await.unwrap_err().code()
    });
    // The run fails, too; what its work saw is dropped with it.
    assert_eq!(soon(run).await.unwrap_err().code(), Code::LeaseLost);
}
