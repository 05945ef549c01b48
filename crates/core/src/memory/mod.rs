//! The memory store: the executable specification that every other store is compared with.
