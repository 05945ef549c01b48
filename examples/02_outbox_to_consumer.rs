//! From a committed row to an effect in another database, applied once.
//!
//! A shop writes orders and their events in its own rusqlite transactions; one of three is rolled back. A relay
//! publishes what was committed, and a consumer adds it up in the database of billing. You will see:
//!
//! ```text
//! committed ada's order of 30
//! rolled back bob's order of 99
//! committed ada's order of 12
//! published 2
//! applied 2
//! applied again 0
//! ada owes 42
//! ```
//!
//! Run it: `cargo run -p tidegate --example 02_outbox_to_consumer`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use tidegate::inbox::{Delivered, Start};
use tidegate::stores::sqlite::inbox::{HandlerError, InboxOptions, SqliteInbox, each};
use tidegate::stores::sqlite::outbox::Wanted;
use tidegate::stores::sqlite::rusqlite::Connection;
use tidegate::stores::sqlite::{Database, OpenOptions, SqliteOutbox, SqliteStream};
use tidegate::{Consumer, Draft, Relay};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result {
    let dir = tempfile::tempdir()?;
    let shop = Database::open(dir.path().join("shop.db"), OpenOptions::default())?;
    let billing = Database::open(dir.path().join("billing.db"), OpenOptions::default())?;
    let outbox = SqliteOutbox::open(&shop, "orders", Wanted::default()).await?;

    take_orders(shop.path(), &outbox)?;

    // The log may live in either file, or in one of its own.
    let stream = Arc::new(SqliteStream::open(&shop, "orders").await?);
    let relay = Relay::new("orders", Arc::new(outbox), stream.clone()).build()?;
    println!("published {}", relay.run_once().await?);

    let ledger = Connection::open(billing.path())?;
    ledger.execute_batch("create table owes (customer text primary key, total integer not null) strict")?;
    let inbox = SqliteInbox::open(billing, "billing", InboxOptions::default()).await?;
    let applier = Arc::new(inbox.applier(each(charge)));
    let consumer = Consumer::new("billing", stream, Arc::new(inbox), applier, Start::Earliest).build()?;
    println!("applied {}", consumer.run_once().await?);
    println!("applied again {}", consumer.run_once().await?);

    let total: i64 = ledger.query_row("select total from owes where customer = 'ada'", [], |row| {
        row.get(0)
    })?;
    println!("ada owes {total}");
    Ok(())
}

/// What a service does: its change and the event commit together, or not at all.
fn take_orders(path: &Path, outbox: &SqliteOutbox) -> Result {
    let mut db = Connection::open(path)?;
    db.execute_batch("create table orders (customer text not null, total integer not null) strict")?;
    for (customer, total) in [("ada", 30), ("bob", 99), ("ada", 12)] {
        let tx = db.transaction()?;
        tx.execute("insert into orders values (?1, ?2)", (customer, total))?;
        outbox.enqueue_in(&tx, [Draft::new("order-placed", customer).json(&total)?])?;
        if total < 50 {
            tx.commit()?;
            println!("committed {customer}'s order of {total}");
        } else {
            tx.rollback()?;
            println!("rolled back {customer}'s order of {total}");
        }
    }
    Ok(())
}

/// Runs inside the transaction that also marks the event as applied.
fn charge(db: &Connection, delivered: &Delivered) -> std::result::Result<(), HandlerError> {
    let total: i64 = serde_json::from_slice(&delivered.event.payload)?;
    db.execute(
        "insert into owes values (?1, ?2) on conflict do update set total = total + excluded.total",
        (&delivered.event.key, total),
    )?;
    Ok(())
}
