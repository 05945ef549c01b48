-- ?1 name, ?2 incarnation
insert into tidegate_stream (name, incarnation, last) values (?1, ?2, 0) returning id
