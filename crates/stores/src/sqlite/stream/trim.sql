-- ?1 first id, ?2 last id
delete from tidegate_entry where id between ?1 and ?2
