-- ?1 stream
select reader, below, renewed_at from tidegate_stream_hold where stream = ?1 order by reader
