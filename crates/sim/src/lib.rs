//! The proof of the whole: a seeded, single-threaded, faulty world that drives the machines that ship.

pub mod lease;
pub mod pipeline;
