-- ?1 stream, ?2 lineage, ?3 lane, ?4 first, ?5 last, ?6 chain, ?7 now
insert into tidegate_stream_lost (stream, lineage, lane, first, last, chain, declared_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
