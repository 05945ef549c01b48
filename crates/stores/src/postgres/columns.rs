//! Values as Postgres keeps them: unsigned numbers as bigint, ids as uuid, times as bigint microseconds since 1970.

use tidegate_core::lease::{Nonce, Token};
use tidegate_core::stream::Chain;
use tidegate_core::{Code, Error, Result, Uuid};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// One column, by place.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T> {
    row.try_get(index).map_err(|_| {
        Error::new(
            Code::StoreCorrupt,
            format!("column {index} of a row has another type"),
        )
    })
}

/// A number that is never negative.
pub(super) fn number(row: &Row, index: usize) -> Result<u64> {
    u64::try_from(get::<i64>(row, index)?)
        .map_err(|_| Error::new(Code::StoreCorrupt, format!("column {index} of a row is negative")))
}

/// A token.
pub(super) fn token(row: &Row, index: usize) -> Result<Token> {
    number(row, index).map(Token)
}

/// A nonce as the uuid of the same bits.
pub(super) fn nonce(row: &Row, index: usize) -> Result<Option<Nonce>> {
    Ok(get::<Option<Uuid>>(row, index)?.map(|id| Nonce(id.as_u128())))
}

/// As stored.
pub(super) fn nonce_uuid(nonce: Nonce) -> Uuid {
    Uuid::from_u128(nonce.0)
}

/// A chain hash.
pub(super) fn chain(row: &Row, index: usize) -> Result<Chain> {
    let bytes: &[u8] = get(row, index)?;
    <[u8; 16]>::try_from(bytes).map(Chain).map_err(|_| {
        Error::new(
            Code::StoreCorrupt,
            format!("a chain has {} bytes; it must have 16", bytes.len()),
        )
    })
}

/// A slot as smallint.
pub(super) fn slot(row: &Row, index: usize) -> Result<u16> {
    u16::try_from(get::<i16>(row, index)?)
        .map_err(|_| Error::new(Code::StoreCorrupt, format!("column {index} of a row is no lane")))
}
