-- Counted for people: entries of a stale or repeated append that this stream turned away.
update tidegate_register set refused = refused + ?2 where id = ?1
