//! A doorbell without a runtime.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::store::BoxFuture;

/// Wakes everyone who waits; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Bell(Arc<Mutex<Rings>>);

#[derive(Debug, Default)]
struct Rings {
    count: u64,
    waiting: Vec<Waker>,
}

impl Bell {
    /// Rings.
    pub fn ring(&self) {
        let waiting = {
            let mut rings = self.lock();
            rings.count += 1;
            std::mem::take(&mut rings.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Resolves at the first ring after this call.
    pub fn rung(&self) -> BoxFuture<'static, ()> {
        let bell = self.clone();
        let seen = self.lock().count;
        Box::pin(poll_fn(move |context| {
            let mut rings = bell.lock();
            if rings.count != seen {
                return Poll::Ready(());
            }
            if !rings.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                rings.waiting.push(context.waker().clone());
            }
            Poll::Pending
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
