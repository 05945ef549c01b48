//! Parameters with their types, as statements take them.

#![allow(clippy::ref_option, clippy::trivially_copy_pass_by_ref)] // The driver wants references to what it encodes.

use tidegate_core::Uuid;
use tokio_postgres::types::Type;

use super::db::Typed;

pub(super) fn int8(value: &i64) -> Typed<'_> {
    (value, Type::INT8)
}

pub(super) fn int8_or(value: &Option<i64>) -> Typed<'_> {
    (value, Type::INT8)
}

pub(super) fn int4(value: &i32) -> Typed<'_> {
    (value, Type::INT4)
}

pub(super) fn text<'a>(value: &'a &str) -> Typed<'a> {
    (value, Type::TEXT)
}

pub(super) fn string(value: &String) -> Typed<'_> {
    (value, Type::TEXT)
}

pub(super) fn string_or(value: &Option<String>) -> Typed<'_> {
    (value, Type::TEXT)
}

pub(super) fn uuid(value: &Uuid) -> Typed<'_> {
    (value, Type::UUID)
}

pub(super) fn uuid_or(value: &Option<Uuid>) -> Typed<'_> {
    (value, Type::UUID)
}

pub(super) fn bytea<'a>(value: &'a &[u8]) -> Typed<'a> {
    (value, Type::BYTEA)
}
