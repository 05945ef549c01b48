//! Listens to what a database is told by NOTIFY, on a connection of its own that is never in a transaction.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tidegate_core::Result;
use tidegate_core::store::BoxFuture;
use tokio_postgres::AsyncMessage;

use super::db::Dial;
use super::error;
use crate::listener::{Listener, Rings};

/// Where nobody can listen: behind a pooler.
const POLL: Duration = Duration::from_millis(50);

/// Resolves at the next notification, or ring of this process, from the call on.
pub(super) fn rung(listener: &Listener, dial: &Dial, pooler: bool) -> BoxFuture<'static, ()> {
    if pooler {
        return Box::pin(tokio::time::sleep(POLL));
    }
    let dial = dial.clone();
    listener.rung(move |rings| {
        let dial = dial.clone();
        async move {
            let _ = hear(&dial, &rings).await;
        }
    })
}

async fn hear(dial: &Dial, rings: &Rings) -> Result<()> {
    let (client, mut connection) = dial.connect().await?;
    let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
    let text = format!("listen {}", dial.channel());
    let mut listening = std::pin::pin!(client.batch_execute(&text));
    let mut heard = false;
    loop {
        tokio::select! {
            done = &mut listening, if !heard => {
                done.map_err(error::map("listening"))?;
                heard = true;
                // Whatever was said before is not repeated.
                rings.ring();
            }
            message = messages.next() => match message {
                Some(Ok(AsyncMessage::Notification(_))) => rings.ring(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Ok(()),
            },
        }
    }
}
