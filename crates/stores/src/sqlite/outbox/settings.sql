-- ?1 name
select id, lineage, lanes, archive from tidegate_outbox_settings where name = ?1
