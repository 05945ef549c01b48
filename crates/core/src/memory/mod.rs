//! The memory store: the executable specification that every other store is compared with.

pub mod bell;
pub mod clock;
pub mod dead_letter;
pub mod inbox;
pub mod lease;
pub mod outbox;
pub mod stream;

pub use bell::Bell;
pub use clock::Clock;
pub use outbox::MemoryOutbox;
pub use stream::MemoryStream;
