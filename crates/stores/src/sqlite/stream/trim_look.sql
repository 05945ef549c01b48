-- ?1 first id, ?2 last id, ?3 limit
select id, appended_at from tidegate_entry where id between ?1 and ?2 order by id limit ?3
