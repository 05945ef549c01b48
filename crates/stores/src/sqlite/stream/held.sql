-- ?1 stream
select min(below) from tidegate_stream_hold where stream = ?1
