//! What the handle of a sweeper shows: what the job did, under which the lease was held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::memory::Bell;
use tidegate_core::store::{BoxFuture, Doorbell};
use tidegate_core::sweep::machine::Machine;
use tidegate_core::time::Now;
use tidegate_core::{Error, Ticks, Timestamp};
use tokio::task::JoinSet;

use crate::worker::{State, Status, Work};

/// What outlives a term; rings when it changes.
#[derive(Default)]
pub(super) struct Board {
    notes: Mutex<Notes>,
    bell: Bell,
}

#[derive(Default)]
struct Notes {
    done: u64,
    failures: u32,
    owed: Option<Timestamp>,
    quiet: bool,
    error: Option<Error>,
}

impl Board {
    pub(super) fn failures(&self) -> u32 {
        self.lock().failures
    }

    pub(super) fn swept(&self, done: u64) {
        self.lock().done += done;
    }

    pub(super) fn fail(&self, error: Error) {
        self.lock().error = Some(error);
    }

    /// A run ended well.
    pub(super) fn well(&self) {
        self.lock().error = None;
    }

    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().error.take()
    }

    pub(super) fn show(&self, machine: &Machine, now: Now) {
        let owed = machine.owed(now.ticks);
        let mut notes = self.lock();
        notes.failures = machine.failures();
        notes.owed = owed.map(|since| now.wall.before(now.ticks.since(since)));
        notes.quiet = owed.is_none();
        drop(notes);
        self.bell.ring();
    }

    pub(super) fn status(&self) -> Status {
        let notes = self.lock();
        let trouble = notes.error.as_ref().map(ToString::to_string);
        Status {
            state: if trouble.is_some() {
                State::Paused
            } else {
                State::Live
            },
            held: 0,
            done: notes.done,
            behind: u64::from(notes.owed.is_some()),
            oldest: notes.owed,
            quiet: notes.quiet,
            trouble,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop that holds the lease, with the board's status.
pub(super) struct Shown<L> {
    pub(super) lead: L,
    pub(super) board: Arc<Board>,
}

impl<L: Work> Work for Shown<L> {
    type Input = L::Input;

    fn tick() -> L::Input {
        L::tick()
    }

    fn rung() -> L::Input {
        L::rung()
    }

    fn stop() -> L::Input {
        L::stop()
    }

    fn step(&mut self, now: Now, input: L::Input, tasks: &mut JoinSet<L::Input>) -> bool {
        self.lead.step(now, input, tasks)
    }

    fn wake_at(&self) -> Option<Ticks> {
        self.lead.wake_at()
    }

    fn bell(&self) -> Arc<dyn Doorbell> {
        Arc::new(Either(self.lead.bell(), self.board.bell.clone()))
    }

    /// A run is owed by whoever holds the lease.
    fn status(&self, now: Now) -> Status {
        let (lead, board) = (self.lead.status(now), self.board.status());
        let held = lead.held > 0;
        let trouble = lead.trouble.or(board.trouble);
        Status {
            state: if trouble.is_some() {
                State::Paused
            } else {
                board.state
            },
            held: lead.held,
            behind: if held { board.behind } else { 0 },
            oldest: board.oldest.filter(|_| held),
            trouble,
            ..board
        }
    }
}

struct Either(Arc<dyn Doorbell>, Bell);

impl Doorbell for Either {
    /// Both listen from the call on.
    fn rung(&self) -> BoxFuture<'_, ()> {
        let (first, second) = (self.0.rung(), self.1.rung());
        Box::pin(async move {
            tokio::select! {
                () = first => {}
                () = second => {}
            }
        })
    }
}
