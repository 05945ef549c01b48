-- A generated column or an indexed expression can refuse a value too.
-- ?1 table of the main schema, ?2 key. False as well for a view, and where a comment says CHECK: then nothing folds.
select exists (select 1 from pragma_table_list where schema = 'main' and name = ?1 collate nocase and type = 'table')
  and not exists (
    select 1 from (select type, tbl_name, sql from main.sqlite_schema union all select type, tbl_name, sql from temp.sqlite_schema)
    where tbl_name = ?1 collate nocase and (type = 'trigger' or sql like '%check%'))
  and not exists (select 1 from pragma_foreign_key_list(?1, 'main'))
  and not exists (select 1 from pragma_table_xinfo(?1, 'main') where hidden in (2, 3))
  and not exists (
    select 1 from pragma_index_list(?1, 'main') as i
    where i.partial or exists (select 1 from pragma_index_info(i.name, 'main') where cid = -2) or i."unique" and (select group_concat(c.name) from pragma_index_info(i.name, 'main') as c) collate nocase is not ?2)
