//! Checkpoints of sweeps, in the database that holds their effects.
//!
//! A job does its step and saves its checkpoint in one transaction of the user's own driver: see [`save_checkpoint`].

use tidegate_core::lease::Fence;
use tidegate_core::store::{BoxFuture, LeaseStore, SweepStore};
use tidegate_core::sweep::{Mark, Place};
use tidegate_core::{Code, Error, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::columns::{get, nonce, number, token};
use super::lease::Leases;
use super::{Database, map_error};

/// The checkpoints of one database.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    db: Database,
    fences: Leases,
}

impl Checkpoints {
    /// Over an open database.
    pub fn new(db: Database) -> Self {
        Self {
            fences: Leases::new(db.clone()),
            db,
        }
    }
}

impl SweepStore for Checkpoints {
    fn fences(&self) -> &dyn LeaseStore {
        &self.fences
    }

    fn place(&self, name: String) -> BoxFuture<'_, Result<Place>> {
        Box::pin(async move {
            let params = &[(&name as _, Type::TEXT)];
            let text = include_str!("sweep/read.sql");
            let rows = self.db.query("reading a checkpoint", text, params).await?;
            rows.first().map_or_else(|| Ok(Place::default()), place)
        })
    }
}

/// Saves a job's checkpoint in the caller's transaction, together with the step's effect. Returns the new version, for
/// a step that saves more than once. Three statements.
///
/// Fence and version are compared here, under the lock of the fence's row, so that a checkpoint never goes back:
/// neither after a hand-over nor when a step that was cut commits late.
///
/// # Errors
/// [`Code::LeaseLost`] when another term or a later step saves now: the caller must roll back. [`Code::OptionsInvalid`]
/// for more than 4 KiB, and the database's own.
pub async fn save_checkpoint(
    tx: &impl GenericClient,
    db: &Database,
    mark: &Mark,
    bytes: &[u8],
) -> Result<u64> {
    let at = "saving a checkpoint";
    let failed = map_error(at);
    let fence = db.text(include_str!("sweep/fence.sql"));
    let scope = mark.scope.as_str();
    let fence = tx.query_typed(&fence, &[(&scope, Type::TEXT)]).await;
    let fence = fence.map_err(&failed)?.first().map(register).transpose()?;
    let read = db.text(include_str!("sweep/read.sql"));
    let there = tx.query_typed(&read, &[(&mark.name, Type::TEXT)]).await;
    let there = there.map_err(&failed)?;
    let version = there.first().map_or(Ok(0), |row| number(row, 0))?;
    mark.admits(fence, version, bytes)?;
    let save = db.text(include_str!("sweep/save.sql"));
    let saved = tx
        .query_typed(&save, &[(&mark.name, Type::TEXT), (&bytes, Type::BYTEA)])
        .await
        .map_err(&failed)?;
    let row = saved
        .first()
        .ok_or_else(|| Error::new(Code::Internal, "a checkpoint was not saved"))?;
    number(row, 0)
}

fn register(row: &Row) -> Result<Fence> {
    let nonce = nonce(row, 1)?.ok_or_else(|| Error::new(Code::StoreCorrupt, "a fence without a nonce"))?;
    Ok(Fence {
        token: token(row, 0)?,
        nonce,
    })
}

fn place(row: &Row) -> Result<Place> {
    Ok(Place {
        version: number(row, 0)?,
        bytes: Some(get(row, 1)?),
    })
}
