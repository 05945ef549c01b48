-- ?1 stream, ?2 reader
delete from tidegate_stream_hold where stream = ?1 and reader = ?2
