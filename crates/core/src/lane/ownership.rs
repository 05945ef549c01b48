//! Ownership of a share of lanes.
