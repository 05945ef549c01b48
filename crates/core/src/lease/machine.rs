//! The holder machine.
