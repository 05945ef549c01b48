-- ?1 stream, ?2 entries: their positions end at the returned one.
update tidegate_stream set last = last + ?2 where id = ?1 returning last
