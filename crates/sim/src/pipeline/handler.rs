//! The user's code: writes one effect an event, and fails in the ways the workload asks for.

use std::cell::RefCell;
use std::rc::Rc;

use tidegate_core::inbox::apply::Redact;
use tidegate_core::inbox::handler::{Handler, LocalBoxFuture, Mode};
use tidegate_core::inbox::{Class, Delivered, Failure, Verdict};
use tidegate_core::{Code, Error};

use super::canary::Canary;
use super::db::{Inside, Tx};
use super::knobs::Fault;
use super::workload::{Kind, kind_of};

/// What a redacted message must not hold.
pub(super) const SECRET: &str = "secret";

/// Takes the secret out, unless it is a canary that leaves it in.
pub(super) struct Redaction {
    pub(super) works: bool,
}

impl Redact for Redaction {
    fn text(&self, message: &str) -> String {
        let with = if self.works { "[redacted]" } else { SECRET };
        message.replace(SECRET, with)
    }
}

pub(super) struct SimHandler(pub(super) Rc<RefCell<Inside>>);

impl Handler<Tx> for SimHandler {
    fn mode(&self) -> Mode {
        self.0.borrow().knobs.mode
    }

    fn apply<'a>(&'a self, tx: &'a mut Tx, events: &'a [Delivered]) -> LocalBoxFuture<'a, Verdict> {
        let verdict = self.0.borrow_mut().handle(tx, events);
        Box::pin(std::future::ready(verdict))
    }
}

impl Inside {
    fn handle(&mut self, tx: &mut Tx, events: &[Delivered]) -> Verdict {
        if self.canary == Some(Canary::DropPrefix) && std::mem::take(&mut self.drop_next) {
            return Verdict::Applied;
        }
        if self.strikes(Fault::Infra) {
            return Verdict::Infrastructure(down());
        }
        for (index, event) in events.iter().enumerate() {
            match kind_of(&event.event) {
                Kind::Killer => {
                    self.killed = true;
                    return Verdict::Infrastructure(down());
                }
                Kind::Bad => return self.fail(index, "bad"),
                Kind::Flaky if self.chaos => return self.fail(index, "flaky"),
                _ if self.canary == Some(Canary::HandlerTwice) => {
                    tx.effect(event);
                    tx.effect(event);
                }
                _ => tx.effect(event),
            }
        }
        Verdict::Applied
    }

    fn fail(&mut self, index: usize, fingerprint: &str) -> Verdict {
        self.drop_next = true;
        let failure = Failure {
            class: Class::Handler,
            fingerprint: fingerprint.into(),
            message: format!("cannot apply: {SECRET}"),
        };
        let index = self.knobs.names_culprit.then_some(index);
        Verdict::Failed { index, failure }
    }
}

fn down() -> Error {
    Error::new(Code::StoreUnavailable, "simulated: something below is down")
}
