//! Carries out effects on the memory stores, looks at what changed, and puts the canaries in.

mod canaries;

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_core::dead_letter::redact::Redactor;
use tidegate_core::dead_letter::{Filter, State, Which};

use tidegate_core::inbox::{self, Applied, Batch, consumer};
use tidegate_core::lane::LaneId;
use tidegate_core::lease::{Nonce, Token};
use tidegate_core::memory::dead_letter::MemoryDeadLetters;
use tidegate_core::memory::inbox::Contents as Inbox;
use tidegate_core::memory::{MemoryOutbox, MemoryStream};
use tidegate_core::outbox::{Park, ParkReply, Turn, Turned, relay};
use tidegate_core::store::{DeadLetters, InboxStore, OutboxStore, Sink, StreamStore};
use tidegate_core::stream::{Appended, EntryId, LaneAppend, Lost};
use tidegate_core::{Reply, Result, Timestamp};

use super::canary::Canary;
use super::check::{Checked, Truth, Violation, Writer, went_on};
use super::coverage::Coverage;
use super::db::{Db, Inside};
use super::handler::{Redaction, SimHandler};
use super::knobs::Fault;
use super::node::{Effect, Input};

/// Everything that outlives a process.
pub(super) struct Stores {
    pub(super) outbox: MemoryOutbox,
    pub(super) stream: MemoryStream,
    pub(super) db: Db,
    pub(super) inside: Rc<RefCell<Inside>>,
    pub(super) handler: SimHandler,
    pub(super) options: inbox::Options,
    pub(super) canary: Option<Canary>,
    pub(super) truth: Truth,
    pub(super) coverage: Coverage,
}

/// Memory stores are ready at once.
pub(super) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a memory store is always ready"),
    }
}

fn reply<T>(future: impl Future<Output = Result<T>>) -> Reply<T> {
    ready(future).into()
}

impl Stores {
    pub(super) fn is(&self, canary: Canary) -> bool {
        self.canary == Some(canary)
    }

    /// Carries out one effect of a member.
    pub(super) fn perform(&mut self, member: Nonce, effect: &Effect) -> Result<Input, Violation> {
        Ok(match effect.clone() {
            Effect::Relay(effect) => Input::Relay(self.relay(member, effect)?),
            Effect::Consumer(effect) => Input::Consumer(self.consumer(member, effect)?),
        })
    }

    fn relay(&mut self, member: Nonce, effect: relay::Effect) -> Result<relay::Input, Violation> {
        use relay::{Effect as R, Input as I};
        Ok(match effect {
            R::Hold(hold) => {
                let (before, leaves) = (self.outbox.contents(), hold.leave);
                let held = reply(self.outbox.hold(hold));
                if leaves && self.is(Canary::ReleaseForgotten) {
                    self.outbox.restore(before);
                }
                I::Held(held)
            }
            R::Turn(turn) => I::Turned(self.turn(turn)?),
            R::Append(lanes) => I::Appended(self.append(&lanes)?),
            R::Register(lanes) => I::Registered(reply(self.stream.register(lanes))),
            R::Refill {
                lane,
                token,
                from,
                limit,
            } => {
                let refill = reply(self.outbox.refill(member, lane, token, from, limit));
                I::Refilled(self.renumbered(lane, from, refill))
            }
            R::Park(park) => I::Parked(self.park(park)?),
            R::Declare(lost, token) => I::Declared(self.declare(lost, token)),
            R::Note(_) | R::Stopped => I::Tick,
        })
    }

    // ---- outbox ----

    fn turn(&mut self, turn: Turn) -> Result<Reply<Vec<Turned>>, Violation> {
        let before = self.outbox.contents();
        let writer = Writer {
            member: turn.member,
            lanes: turn.lanes.iter().map(|l| (l.lane, l.token)).collect(),
        };
        let turned = match self.canary {
            Some(Canary::PlanUnfenced) => self.turn_unfenced(&turn),
            Some(Canary::SettleByPredicate) => reply(self.outbox.turn(self.settle_all(turn))),
            _ => reply(self.outbox.turn(turn)),
        };
        let after = self.outbox.contents();
        if self.is(Canary::AppendBeforePlan) && self.inside.borrow_mut().rng.bool() {
            self.outbox.restore(before);
            return Ok(turned);
        }
        let fenced = |t: &Turned| t.outcome == tidegate_core::outbox::LaneTurned::Fenced;
        let stale = matches!(&turned, Reply::Done(turned) if turned.iter().any(fenced));
        self.coverage.hit_if(stale, "stale write refused");
        self.truth.outbox(&before, &after, &writer, false)?;
        Ok(turned)
    }

    fn park(&mut self, park: Park) -> Result<Reply<ParkReply>, Violation> {
        let before = self.outbox.contents();
        let writer = Writer {
            member: park.member,
            lanes: vec![(park.lane, park.token)],
        };
        let parked = reply(self.outbox.park(park));
        let after = self.outbox.contents();
        self.truth.outbox(&before, &after, &writer, true)?;
        let follower = matches!(&parked, Reply::Done(ParkReply::Parked { voided, .. }) if voided.len() > 1);
        self.coverage.hit_if(follower, "relay voided a follower");
        Ok(parked)
    }

    // ---- stream ----

    fn append(&mut self, lanes: &[LaneAppend]) -> Result<Reply<Vec<Appended>>, Violation> {
        if self.inside.borrow_mut().strikes(Fault::Full) {
            self.coverage.hit("stream paused a lane");
            if self.is(Canary::OutageIsPoison) {
                return Ok(Reply::Done(lanes.iter().map(|l| self.blamed(l)).collect()));
            }
            let full = |_| Appended::Paused("simulated: full".into());
            return Ok(Reply::Done(lanes.iter().map(full).collect()));
        }
        let before = self.stream.contents();
        let mut outcomes = match self.canary {
            Some(Canary::AppendAboveRegister) => {
                self.raise_registers(lanes);
                reply(self.stream.append(lanes.to_vec()))
            }
            Some(Canary::HoleForVoid) => Reply::Done(lanes.iter().map(|l| self.append_holes(l)).collect()),
            _ => reply(self.stream.append(lanes.to_vec())),
        };
        self.truth.appended(&before, &self.stream.contents(), lanes)?;
        if self.is(Canary::SentAgain) {
            self.send_again(lanes)?;
        }
        if let Reply::Done(outcomes) = &mut outcomes {
            for (append, outcome) in lanes.iter().zip(outcomes) {
                self.refused(append, outcome);
            }
        }
        Ok(outcomes)
    }

    fn refused(&mut self, append: &LaneAppend, outcome: &mut Appended) {
        let last = append.entries.last().map_or(0, |e| e.n);
        match outcome {
            Appended::Moved(_) => {
                self.truth.moved += 1;
                self.coverage.hit("stream refused a moved append");
                if self.is(Canary::RetryBySequence) {
                    *outcome = Appended::Through(last);
                }
            }
            Appended::Fenced(_) => self.coverage.hit("stream refused a stale token"),
            // The others of its lane come again without it.
            Appended::Poison { .. } => self.truth.handed_over(append.lane.slot),
            Appended::Through(_) | Appended::Paused(_) => {}
        }
    }

    fn declare(&self, lost: Lost, token: Token) -> Reply<Appended> {
        reply(self.stream.declare_lost(lost, token))
    }

    // ---- inbox ----

    fn consumer(&mut self, member: Nonce, effect: consumer::Effect) -> Result<consumer::Input, Violation> {
        use consumer::{Effect as C, Input as I};
        let inbox = self.db.inbox.clone();
        Ok(match effect {
            C::Hold(hold) => I::Held(reply(inbox.hold(hold))),
            C::Registers => I::Registers(reply(self.stream.registers())),
            C::Locate(time) => I::Located(reply(self.stream.locate(time))),
            C::Discover(lanes) => {
                let registered = reply(inbox.register(lanes));
                let stream = self.stream.contents();
                let contents = inbox.contents();
                let middle = contents.ledgers.values().any(|ledger| ledger.start > 0);
                self.coverage.hit_if(middle, "consumer started in the middle");
                self.truth.started(&stream, &contents)?;
                I::Discovered(registered)
            }
            C::Read {
                after,
                lanes,
                limit,
                bytes_max,
            } => I::Page(reply(self.stream.read(after, Some(lanes), limit, bytes_max))),
            C::Apply(batch) => I::Applied(self.apply(&batch)?),
            C::Retry(retry) => {
                let writer = Writer {
                    member,
                    lanes: retry.lanes.clone(),
                };
                let (handler, options, db) = (&self.handler, &self.options, &self.db);
                let retried = reply(inbox::apply::retry(
                    db,
                    handler,
                    options,
                    &self.redaction(),
                    &retry,
                ));
                self.committed(&writer)?;
                I::Retried(retried)
            }
            C::MoveCursors(cursors) => I::CursorsMoved(self.move_cursors(member, cursors)?),
            C::Note(_) | C::Stopped => I::Tick,
        })
    }

    fn redaction(&self) -> Redaction {
        let works = !self.is(Canary::MessageInClear);
        Redaction { works }
    }

    fn apply(&mut self, batch: &Batch) -> Result<Reply<Applied>, Violation> {
        let writer = Writer {
            member: batch.member,
            lanes: batch.lanes.iter().map(|l| (l.lane, l.token)).collect(),
        };
        let (handler, options, db) = (&self.handler, &self.options, &self.db);
        let mut applied = reply(inbox::apply::apply(
            db,
            handler,
            options,
            &self.redaction(),
            &self.cut_short(batch),
        ));
        self.coverage.hit_if(batch.careful, "careful batch");
        self.committed(&writer)?;
        if let Reply::Done(applied) = &mut applied {
            went_on(batch, applied)?;
            self.truth.duplicates += applied.counts.duplicates;
            if self.is(Canary::PositionJumpsGap) {
                self.jump_gaps(batch, applied)?;
            }
            if self.is(Canary::PositionGoesBack) {
                self.go_back(batch, applied)?;
            }
        }
        Ok(applied)
    }

    /// Looks at each snapshot that the last call committed.
    fn committed(&mut self, writer: &Writer) -> Checked {
        let (commits, met) = {
            let mut inside = self.inside.borrow_mut();
            (
                std::mem::take(&mut inside.commits),
                std::mem::take(&mut inside.met),
            )
        };
        for point in met {
            self.coverage.hit(point);
        }
        for (before, after) in &commits {
            let crashed = |c: &Inbox| {
                let class = tidegate_core::inbox::Class::Crash;
                c.parked.values().filter(|p| p.failure.class == class).count()
            };
            let more = crashed(after) > crashed(before);
            self.coverage.hit_if(more, "event dead after crashes");
            self.truth.inbox(before, after, writer)?;
            self.truth.cursors(after, &self.stream.contents())?;
        }
        Ok(())
    }

    fn move_cursors(
        &mut self,
        member: Nonce,
        mut cursors: Vec<(LaneId, Token, EntryId)>,
    ) -> Result<Reply<u64>, Violation> {
        let inbox = self.db.inbox.clone();
        if self.is(Canary::CursorSkips) {
            let end = EntryId(0, self.stream.contents().last);
            let rows = inbox.contents();
            let mine = rows.lanes.iter().filter(|row| row.owner == Some(member));
            cursors = mine.map(|row| (row.lane, row.token, end)).collect();
        }
        let moved = reply(inbox.move_cursors(member, cursors));
        let contents: Arc<Inbox> = inbox.contents();
        self.truth.cursors(&contents, &self.stream.contents())?;
        if let Some(lowest) = contents.lanes.iter().map(|row| row.state.cursor).min() {
            let _ = ready(self.stream.publish_hold("sim".into(), lowest));
        }
        Ok(moved)
    }

    /// A person redrives every dead key.
    pub(super) fn redrive(&mut self, now: i64) -> Checked {
        let (letters, now) = (self.letters(), Timestamp::from_micros(now));
        let redriven = self.decide(letters.redrive(Which::All, "sim".into(), now))?;
        self.coverage
            .hit_if(redriven.is_some_and(|keys| keys > 0), "dead key redriven");
        Ok(())
    }

    /// A person discards the first dead letter.
    pub(super) fn discard(&mut self, now: i64) -> Checked {
        let (letters, now) = (self.letters(), Timestamp::from_micros(now));
        let all = ready(letters.ls(Filter::default())).unwrap_or_default();
        let dead = all.iter().find(|letter| letter.state != State::Retrying);
        let Some(id) = dead.map(|letter| letter.id) else {
            return Ok(());
        };
        self.coverage.hit("dead letter discarded");
        self.decide(letters.discard(id, "sim".into(), now)).map(drop)
    }

    fn letters(&self) -> MemoryDeadLetters {
        MemoryDeadLetters::new(self.db.inbox.clone(), Redactor::default())
    }

    /// Carries a decision out and looks at the snapshot that it committed.
    fn decide<T>(&self, decision: impl Future<Output = Result<T>>) -> Result<Option<T>, Violation> {
        let before = self.db.inbox.contents();
        let decided = ready(decision).ok();
        if self.is(Canary::RedriveApplies) && !before.parked.is_empty() {
            ready(self.db.scribble());
        }
        self.truth.decided(&before, &self.db.inbox.contents())?;
        Ok(decided)
    }

    /// Deletes old entries, if somebody keeps a hold.
    pub(super) fn trim(&mut self) -> Checked {
        let before = self.stream.contents();
        if before.holds.is_empty() {
            return Ok(());
        }
        let trimmed = ready(self.stream.trim(Timestamp::from_micros(i64::MAX), 50));
        self.coverage
            .hit_if(trimmed.is_ok_and(|n| n > 0), "stream trimmed");
        let inbox = self.db.inbox.contents();
        self.truth.trimmed(&before, &self.stream.contents(), &inbox)
    }
}
