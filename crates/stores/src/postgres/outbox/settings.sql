-- $1 name
select id, lineage, lanes, archive from tidegate.outbox_settings where name = $1
