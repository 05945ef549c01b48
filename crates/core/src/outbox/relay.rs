//! The relay machine.
