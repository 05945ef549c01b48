-- ?1 outbox, ?2 last id
delete from tidegate_outbox_archive where +outbox = ?1 and id <= ?2
