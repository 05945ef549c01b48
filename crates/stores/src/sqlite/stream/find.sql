-- ?1 name
select id from tidegate_stream where name = ?1
