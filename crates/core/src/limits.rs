//! A bound on everything that is stored, with its reason. Checked before any driver sees the value.

/// Payload of one event: 1 MiB. Larger bodies belong in object storage, with a reference in the event.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Key of one event: 512 bytes, well under the index row limit of every store.
pub const KEY_BYTES_MAX: usize = 512;
/// Topic of one event: 255 bytes, the shortest subject limit among the sinks.
pub const TOPIC_BYTES_MAX: usize = 255;
/// Names and values of all headers of one event together: 16 KiB, a common proxy limit.
pub const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Content type of one event.
pub const CONTENT_TYPE_BYTES_MAX: usize = 255;
/// Scope of a lease: 200 bytes, so that a store's own prefix still fits in 255.
pub const SCOPE_BYTES_MAX: usize = 200;
/// Name of an outbox, stream, consumer or sweep: 63 bytes, the identifier limit of Postgres.
pub const NAME_BYTES_MAX: usize = 63;
/// Lanes of an outbox: a power of two up to 1,024; 64 unless asked otherwise.
pub const LANES_MAX: u16 = 1024;
/// Default number of lanes: enough for parallel owners, few enough that idle lanes cost nothing.
pub const LANES_DEFAULT: u16 = 64;
/// Checkpoint of a sweep: 4 KiB. It says where the job stands, and is read before every step.
pub const CHECKPOINT_BYTES_MAX: usize = 4 * 1024;
