-- ?1 name, ?2 lineage, ?3 lanes, ?4 archive
insert into tidegate_outbox_settings (name, lineage, lanes, archive) values (?1, ?2, ?3, ?4)
returning id
