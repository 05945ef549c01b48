//! Machine tests live in the conformance suite; here are the pure parts.
