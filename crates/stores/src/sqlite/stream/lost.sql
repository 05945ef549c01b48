-- ?1 stream
select lineage, lane, first, last, chain from tidegate_stream_lost where stream = ?1 order by lineage, lane, first
