//! Listens to appends by a read that blocks, and to channels, on a connection of its own.

use futures_util::StreamExt as _;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult};
use tidegate_core::store::BoxFuture;

use super::db::blocking;
use crate::listener::{AT_LEAST, Listener, Rings};

/// Resolves at the next append to the stream with this key, from the call on.
pub(super) fn appended(listener: &Listener, client: Client, key: &str) -> BoxFuture<'static, ()> {
    let key = key.to_owned();
    listener.rung(move |rings| {
        let (client, key) = (client.clone(), key.clone());
        async move {
            let _ = hear_appends(&client, &key, &rings).await;
        }
    })
}

/// Resolves at the next message of the channel, from the call on.
pub(super) fn told(listener: &Listener, client: Client, channel: &str) -> BoxFuture<'static, ()> {
    let channel = channel.to_owned();
    listener.rung(move |rings| {
        let (client, channel) = (client.clone(), channel.clone());
        async move {
            let _ = hear_channel(&client, &channel, &rings).await;
        }
    })
}

async fn hear_appends(client: &Client, key: &str, rings: &Rings) -> RedisResult<()> {
    let mut connection = blocking(client).await?;
    loop {
        let last = last(&mut connection, key).await?;
        // Everything up to `last` was there before this ring.
        rings.ring();
        let read = || {
            let mut read = redis::cmd("XREAD");
            read.arg("COUNT")
                .arg(1)
                .arg("BLOCK")
                .arg(u64::try_from(AT_LEAST.as_millis()).unwrap_or(1000))
                .arg("STREAMS")
                .arg(key)
                .arg(&last);
            read
        };
        while read().query_async::<redis::Value>(&mut connection).await? == redis::Value::Nil {}
    }
}

async fn last(connection: &mut MultiplexedConnection, key: &str) -> RedisResult<String> {
    let newest: Vec<(String, redis::Value)> = redis::cmd("XREVRANGE")
        .arg(key)
        .arg("+")
        .arg("-")
        .arg("COUNT")
        .arg(1)
        .query_async(connection)
        .await?;
    Ok(newest
        .into_iter()
        .next()
        .map_or_else(|| "0-0".into(), |(id, _)| id))
}

async fn hear_channel(client: &Client, channel: &str, rings: &Rings) -> RedisResult<()> {
    let mut subscribed = client.get_async_pubsub().await?;
    subscribed.subscribe(channel).await?;
    let mut messages = subscribed.into_on_message();
    // Whatever was said before is not repeated.
    rings.ring();
    while messages.next().await.is_some() {
        rings.ring();
    }
    Ok(())
}
