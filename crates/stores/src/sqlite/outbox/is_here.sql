-- ?1 outbox, ?2 lineage
select 1 from tidegate_outbox_settings where id = ?1 and lineage = ?2
