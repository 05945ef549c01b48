//! The stream as a Redis Stream: a register for each lane in a hash beside it, compared and advanced by the script that
//! adds the entries.
//!
//! An append is one script for each lane and 128 entries, all in one round trip: a script holds the server only so long.

mod append;
mod envelope;
mod read;
mod values;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidegate_core::lane::LaneId;
use tidegate_core::lease::Token;
use tidegate_core::store::{BoxFuture, Doorbell, Sink, StreamStore};
use tidegate_core::stream::{
    Appended, Capabilities, EntryId, LaneAppend, Lost, Page, Place, ReaderHold, Register, Registers,
};
use tidegate_core::{Code, Error, Result, Timestamp, Uuid, limits};

use super::script::Script;
use super::{Database, bell, error};
use crate::listener::Listener;
use crate::options::check_name;

/// Most entries in one append call.
const BATCH_MAX: usize = 4096;

/// One stream of a server; cheap to clone.
#[derive(Debug, Clone)]
pub struct RedisStream(Arc<Inner>, usize);

#[derive(Debug)]
struct Inner {
    db: Database,
    keys: Keys,
    scripts: Scripts,
    listener: Listener,
    /// Registers as this handle saw them last: what an append is compared with needs the chain before it.
    seen: Mutex<HashMap<LaneId, Register>>,
}

#[derive(Debug)]
struct Keys {
    entries: String,
    registers: String,
    meta: String,
    lost: String,
    holds: String,
}

#[derive(Debug)]
struct Scripts {
    append: Script,
    register: Script,
    declare_lost: Script,
    read: Script,
    hold: Script,
    trim: Script,
}

impl RedisStream {
    /// Opens the stream; its name is noted, so that tools can list it.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for a name outside the limits; the server's.
    pub async fn open(db: &Database, name: &str) -> Result<Self> {
        check_name("stream", name)?;
        if name.contains(['{', '}']) {
            return Err(Error::new(
                Code::OptionsInvalid,
                "the stream's name has a brace, which keys use to keep what belongs together",
            ));
        }
        let known = redis::cmd("SADD")
            .arg(db.index())
            .arg(name)
            .exec_async(&mut db.connection())
            .await;
        known.map_err(error::map("opening a stream"))?;
        let key = |what: &str| format!("{}:{{{name}}}:{what}", db.prefix());
        let keys = Keys {
            entries: key("entries"),
            registers: key("registers"),
            meta: key("meta"),
            lost: key("lost"),
            holds: key("holds"),
        };
        let scripts = Scripts {
            append: Script::new(include_str!("append.lua")),
            register: Script::new(include_str!("register.lua")),
            declare_lost: Script::new(include_str!("declare_lost.lua")),
            read: Script::new(include_str!("read.lua")),
            hold: Script::new(include_str!("hold.lua")),
            trim: Script::new(include_str!("trim.lua")),
        };
        let inner = Inner {
            listener: Listener::default(),
            db: db.clone(),
            keys,
            scripts,
            seen: Mutex::default(),
        };
        Ok(Self(Arc::new(inner), limits::PAYLOAD_BYTES_MAX))
    }

    /// Refuses larger payloads as poison. Default: the limit at enqueue.
    #[must_use]
    pub fn with_payload_max(mut self, bytes: usize) -> Self {
        self.1 = bytes;
        self
    }
}

/// The incarnation of a stream that has none.
fn fresh() -> String {
    Uuid::new_v4().as_simple().to_string()
}

impl Doorbell for RedisStream {
    fn rung(&self) -> BoxFuture<'_, ()> {
        bell::appended(&self.0.listener, self.0.db.client(), &self.0.keys.entries)
    }
}

impl Sink for RedisStream {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            compare_and_append: true,
            tokens: true,
            payload_bytes_max: self.1,
            batch_max: BATCH_MAX,
        }
    }

    fn register(&self, lanes: Vec<(LaneId, Token)>) -> BoxFuture<'_, Result<Vec<Option<Register>>>> {
        Box::pin(async move {
            let registers = append::raise(&self.0, &lanes).await?;
            Ok(registers.into_iter().map(Some).collect())
        })
    }

    fn append(&self, lanes: Vec<LaneAppend>) -> BoxFuture<'_, Result<Vec<Appended>>> {
        Box::pin(async move { append::append(&self.0, &lanes, self.1).await })
    }

    fn declare_lost(&self, lost: Lost, token: Token) -> BoxFuture<'_, Result<Appended>> {
        Box::pin(async move { append::declare_lost(&self.0, &lost, token).await })
    }
}

impl StreamStore for RedisStream {
    fn read(
        &self,
        after: EntryId,
        lanes: Option<Vec<LaneId>>,
        limit: u32,
        bytes_max: usize,
    ) -> BoxFuture<'_, Result<Page>> {
        Box::pin(async move { read::page(&self.0, after, lanes.as_deref(), limit, bytes_max).await })
    }

    fn registers(&self) -> BoxFuture<'_, Result<Registers>> {
        Box::pin(read::registers(&self.0))
    }

    fn locate(&self, from: Timestamp) -> BoxFuture<'_, Result<Vec<(LaneId, Place)>>> {
        Box::pin(read::locate(&self.0, from))
    }

    fn lost(&self) -> BoxFuture<'_, Result<Vec<Lost>>> {
        Box::pin(read::lost(&self.0))
    }

    fn publish_hold(&self, reader: String, below: EntryId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { read::publish_hold(&self.0, &reader, below).await })
    }

    fn holds(&self) -> BoxFuture<'_, Result<Vec<ReaderHold>>> {
        Box::pin(read::holds(&self.0))
    }

    fn drop_hold(&self, reader: String) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { read::drop_hold(&self.0, &reader).await })
    }

    fn trim(&self, before: Timestamp, limit: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(read::trim(&self.0, before, limit))
    }
}
