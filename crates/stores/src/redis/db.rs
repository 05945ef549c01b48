//! A server: one connection that all commands share, and time-outs of our own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use tidegate_core::{Code, Error, Result, Timestamp};

use super::error;

/// How to open a server.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// First part of every key. Default `tidegate`.
    pub prefix: String,
    /// Longest wait for a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// Longest wait for an answer. Default 10 s.
    pub response_timeout: Duration,
    /// What tells the time. Default: the server.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            prefix: "tidegate".into(),
            connect_timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(10),
            clock: None,
        }
    }
}

/// A clock instead of the server's.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Wall time.
    fn now(&self) -> Timestamp;
}

/// An open server; cheap to clone. Reconnects by itself.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    client: Client,
    manager: ConnectionManager,
    options: OpenOptions,
    place: String,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("place", &self.0.place)
            .field("prefix", &self.0.options.prefix)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Connects. `url` is `redis://user:password@host:port/database`, or `rediss://` with TLS.
    ///
    /// # Errors
    /// [`Code::OptionsInvalid`] for the URL, the prefix, or a server that may evict keys; [`Code::StoreUnavailable`] and
    /// [`Code::StoreDenied`] when there is no way in.
    pub async fn open(url: &str, options: OpenOptions) -> Result<Self> {
        check_prefix(&options.prefix)?;
        let client = Client::open(url)
            .map_err(|_| Error::new(Code::OptionsInvalid, "the URL is not one that Redis drivers know"))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            .set_response_timeout(Some(options.response_timeout))
            .set_number_of_retries(1);
        let manager = ConnectionManager::new_with_config(client.clone(), config)
            .await
            .map_err(|e| error::connecting(&e))?;
        let place = place_of(&client);
        let db = Self(Arc::new(Inner {
            client,
            manager,
            options,
            place,
        }));
        db.refuse_eviction().await?;
        Ok(db)
    }

    /// A server that may drop keys drops registers and entries as it likes.
    async fn refuse_eviction(&self) -> Result<()> {
        let info: String = redis::cmd("INFO")
            .arg("memory")
            .query_async(&mut self.connection())
            .await
            .map_err(error::map("reading the server's settings"))?;
        let policy = info
            .lines()
            .find_map(|line| line.strip_prefix("maxmemory_policy:"))
            .map(str::trim);
        match policy {
            None | Some("noeviction") => Ok(()),
            Some(policy) => Err(Error::new(
                Code::OptionsInvalid,
                format!("maxmemory-policy is {policy}: the server may drop keys; it must be noeviction"),
            )),
        }
    }

    /// One answer of the server.
    ///
    /// # Errors
    /// The server's.
    pub async fn ping(&self) -> Result<()> {
        let answer = redis::cmd("PING").exec_async(&mut self.connection()).await;
        answer.map_err(error::map("ping"))
    }

    /// Streams that were opened here, in order of name.
    ///
    /// # Errors
    /// The server's.
    pub async fn streams(&self) -> Result<Vec<String>> {
        let names = redis::cmd("SMEMBERS")
            .arg(self.index())
            .query_async::<Vec<String>>(&mut self.connection())
            .await;
        let mut names = names.map_err(error::map("listing streams"))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Host, port and database, without user and password.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    pub(super) fn index(&self) -> String {
        format!("{}:streams", self.0.options.prefix)
    }

    pub(super) fn prefix(&self) -> &str {
        &self.0.options.prefix
    }

    /// The shared connection.
    pub(super) fn connection(&self) -> ConnectionManager {
        self.0.manager.clone()
    }

    /// Microseconds of the clock that was given; empty: the script asks the server.
    pub(super) fn now(&self) -> String {
        let clock = self.0.options.clock.as_ref();
        clock.map_or_else(String::new, |clock| clock.now().as_micros().to_string())
    }

    pub(super) fn client(&self) -> Client {
        self.0.client.clone()
    }
}

/// A connection for reads that block on the server.
pub(super) async fn blocking(client: &Client) -> redis::RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

fn check_prefix(prefix: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if (1..=63).contains(&prefix.len()) && prefix.chars().all(fits) {
        return Ok(());
    }
    Err(Error::new(
        Code::OptionsInvalid,
        "prefix: must be 1 to 63 of letters, digits and _ - . :",
    ))
}

fn place_of(client: &Client) -> String {
    let info = client.get_connection_info();
    let host = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            format!("{host}:{port}")
        }
        other => other.to_string(),
    };
    format!("{host}/{}", info.redis_settings().db())
}
