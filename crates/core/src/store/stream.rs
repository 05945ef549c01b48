//! Where published events are appended and read.

use crate::error::Result;
use crate::lane::LaneId;
use crate::lease::Token;
use crate::store::{BoxFuture, Doorbell};
use crate::stream::{
    Appended, Capabilities, EntryId, LaneAppend, Lost, Page, Place, ReaderHold, Register, Registers,
};

/// Where a relay publishes. Users may implement it; [`Capabilities`] says what it can promise.
///
/// # Errors
/// An error of a whole call is an outage ([`crate::Effect::NotApplied`]) or unknown ([`crate::Effect::Unknown`]): the
/// relay then reads the registers and continues after them. It writes no row and blames no event.
pub trait Sink: Send + Sync {
    /// What this sink promises.
    fn capabilities(&self) -> Capabilities;

    /// Makes each lane's register carry at least the given token, and returns it. From then on an older token is
    /// refused. A sink without registers returns `None` for each lane. One reply for each lane, in order.
    fn register(&self, lanes: Vec<(LaneId, Token)>) -> BoxFuture<'_, Result<Vec<Option<Register>>>>;

    /// Appends each lane's entries as one atomic step per lane (or one for all). One outcome for each, in order.
    fn append(&self, lanes: Vec<LaneAppend>) -> BoxFuture<'_, Result<Vec<Appended>>>;

    /// Sets the register past a range that no archive holds; recorded in the stream for readers to see.
    fn declare_lost(&self, lost: Lost, token: Token) -> BoxFuture<'_, Result<Appended>>;
}

/// Where a consumer reads. A value of this trait is bound to one stream.
pub trait StreamStore: Doorbell {
    /// Entries after `after`, at most `limit` and about `bytes_max` payload bytes; only of these lanes when given.
    fn read(
        &self,
        after: EntryId,
        lanes: Option<Vec<LaneId>>,
        limit: u32,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Page>>;

    /// Every lane's register.
    fn registers(&self) -> BoxFuture<'_, Result<Registers>>;

    /// The place of each lane before its first entry that the stream took at or after `from`; a lane without one: after
    /// its last. From one snapshot; reads every entry.
    ///
    /// # Errors
    /// [`crate::Code::Gap`]: entries right before that one are trimmed, so that it may not be the first.
    fn locate(&self, from: crate::Timestamp) -> BoxFuture<'_, Result<Vec<(LaneId, Place)>>>;

    /// Ranges declared lost.
    fn lost(&self) -> BoxFuture<'_, Result<Vec<Lost>>>;

    /// Records that `reader` needs everything after `below`; readers renew it as they move.
    fn publish_hold(&self, reader: String, below: EntryId) -> BoxFuture<'_, Result<()>>;

    /// Every reader's hold, in order of reader.
    fn holds(&self) -> BoxFuture<'_, Result<Vec<ReaderHold>>>;

    /// Removes a reader's hold (an operator's step): what it has not read may be trimmed then. A reader that is alive
    /// publishes it again. Returns whether there was one.
    fn drop_hold(&self, reader: String) -> BoxFuture<'_, Result<bool>>;

    /// Deletes entries older than `before` and below every hold, at most `limit`. Returns how many.
    fn trim(&self, before: crate::Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>>;
}
