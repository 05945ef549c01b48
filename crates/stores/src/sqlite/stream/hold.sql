-- ?1 stream, ?2 reader, ?3 below, ?4 now
insert into tidegate_stream_hold (stream, reader, below, renewed_at) values (?1, ?2, ?3, ?4)
on conflict (stream, reader) do update set below = excluded.below, renewed_at = excluded.renewed_at
