-- ?1 stream
select incarnation, last from tidegate_stream where id = ?1
