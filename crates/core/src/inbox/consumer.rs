//! The consumer machine.
