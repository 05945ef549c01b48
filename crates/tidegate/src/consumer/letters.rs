//! Brings a consumer's dead letters to the user's sink, beside the lanes and never in their way.
//!
//! A letter is offered after its commit, by the member that holds its lane, and marked in the database once the sink has
//! taken it. A crash between the two offers it again; so does a lane that changes hands in that moment.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::dead_letter::{Courier, Detail};
use tidegate_core::lane::LaneId;
use tidegate_core::store::{BoxFuture, DeadLetterSink, DeadLetters};
use tidegate_core::{Code, Error, Result};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::metric::quietly;
use crate::worker::{AbortOnDrop, Control};

/// A sink that has not answered by then has failed: it is offered the letter again.
const ACCEPT_LIMIT: Duration = Duration::from_secs(30);
/// Letters are looked for this often without news: a redrive elsewhere makes some.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What the consumer's loop tells the delivery.
#[derive(Default)]
pub(super) struct Desk {
    lanes: Mutex<Vec<LaneId>>,
    news: Notify,
    closing: AtomicBool,
}

impl Desk {
    /// These lanes are mine.
    pub(super) fn own(&self, lanes: Vec<LaneId>) {
        *self.lanes.lock().unwrap_or_else(PoisonError::into_inner) = lanes;
        self.news.notify_one();
    }

    /// There may be letters.
    pub(super) fn ring(&self) {
        self.news.notify_one();
    }

    fn owned(&self) -> Vec<LaneId> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.news.notify_one();
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// Where letters come from and where they go.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) letters: Arc<dyn DeadLetters>,
    pub(super) sink: Arc<dyn DeadLetterSink>,
}

/// Runs `work` with the delivery beside it. After its end the letter that is under way is finished; with
/// [`Control::once`], all of them.
pub(super) async fn beside(
    work: impl Future<Output = Result<()>>,
    route: Route,
    name: String,
    desk: Arc<Desk>,
    control: Control,
) -> Result<()> {
    let once = control.once();
    let delivery = Delivery {
        route,
        name,
        desk: desk.clone(),
        control: control.clone(),
    };
    let mut task = pin!(tokio::spawn(delivery.run()).abort_on_drop());
    let ended = tokio::select! {
        ended = work => ended,
        broken = &mut task => return Err(gone(broken.err())),
    };
    // A loop that failed is started again at once.
    ended?;
    desk.close();
    let limit = match control.remaining() {
        Some(left) => left / 2,
        None if once => Duration::MAX,
        None => ACCEPT_LIMIT,
    };
    let _ = timeout(limit, task).await;
    Ok(())
}

fn gone(error: Option<tokio::task::JoinError>) -> Error {
    let gone = Error::new(Code::WorkerStopped, "the delivery of dead letters ended");
    match error {
        Some(source) => gone.with_source(source),
        None => gone,
    }
}

struct Delivery {
    route: Route,
    name: String,
    desk: Arc<Desk>,
    control: Control,
}

impl Delivery {
    async fn run(self) {
        let mut courier = Courier::default();
        loop {
            let last = self.desk.is_closing();
            if !last || self.control.once() {
                self.deliver(&mut courier).await;
            }
            if last {
                return;
            }
            let pause = courier.not_before().map_or(LOOK_EVERY, clock::until);
            tokio::select! {
                () = self.desk.news.notified() => {}
                () = sleep(pause.min(LOOK_EVERY)) => {}
            }
        }
    }

    /// Until nothing is left or the sink fails.
    async fn deliver(&self, courier: &mut Courier) {
        let lanes = self.desk.owned();
        loop {
            let now = clock::now().ticks;
            let round = courier.round(&*self.route.letters, self, Some(&lanes), now).await;
            match round {
                Ok(0) => return,
                Ok(_) => {}
                Err(_) if self.is_leaving() => return,
                Err(error) => return self.failed(&error),
            }
        }
    }

    /// No other letter is begun.
    fn is_leaving(&self) -> bool {
        self.control.stop.is_cancelled() && !self.control.once()
    }

    fn failed(&self, error: &Error) {
        self.count("tidegate_consumer_sink_failures_total");
        tracing::warn!(consumer = %self.name, %error, "a dead letter did not reach the sink; it stays and is offered again");
    }

    fn count(&self, metric: &'static str) {
        quietly(|| metrics::counter!(metric, "consumer" => self.name.clone()).increment(1));
    }
}

/// The user's sink, in a task of its own: its panic or silence ends there.
impl DeadLetterSink for Delivery {
    fn accept<'a>(&'a self, letter: &'a Detail) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.is_leaving() {
                return Err(Error::new(Code::WorkerStopped, "the consumer is being stopped"));
            }
            let (sink, letter) = (self.route.sink.clone(), letter.clone());
            let task = tokio::spawn(async move { sink.accept(&letter).await }).abort_on_drop();
            match timeout(ACCEPT_LIMIT, task).await {
                Ok(Ok(taken)) => taken.inspect(|()| self.count("tidegate_consumer_told_total")),
                Ok(Err(_)) => Err(Error::new(Code::HandlerFailed, "the dead-letter sink panicked")),
                Err(_) => Err(Error::unknown(format!(
                    "the dead-letter sink did not answer within {ACCEPT_LIMIT:?}"
                ))),
            }
        })
    }
}
