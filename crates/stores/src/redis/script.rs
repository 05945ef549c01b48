//! Scripts by hash, loaded again when the server does not know them: after a restart or a flush of scripts.

use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Script as Loaded};

/// A script with one definition and any number of calls.
#[derive(Debug, Clone)]
pub(super) struct Script(Loaded);

impl Script {
    pub(super) fn new(text: &str) -> Self {
        Self(Loaded::new(text))
    }

    /// A call, to which keys and arguments are added.
    pub(super) fn call(&self, keys: &[&str]) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(self.0.get_hash()).arg(keys.len()).arg(keys);
        cmd
    }

    /// One call, one round trip.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        call: &Cmd,
    ) -> RedisResult<T> {
        match call.query_async(connection).await {
            Err(error) if is_unknown(&error) => {
                self.0.load_async(connection).await?;
                call.query_async(connection).await
            }
            result => result,
        }
    }

    /// Many calls, one round trip. A call that was done before the server forgot the script is done again: every script
    /// compares.
    pub(super) async fn run_all<T: FromRedisValue>(
        &self,
        connection: &mut impl ConnectionLike,
        calls: &Pipeline,
    ) -> RedisResult<T> {
        match calls.query_async(connection).await {
            Err(error) if is_unknown(&error) => {
                self.0.load_async(connection).await?;
                calls.query_async(connection).await
            }
            result => result,
        }
    }
}

fn is_unknown(error: &redis::RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}
