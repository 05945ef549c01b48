//! Dead letters.
