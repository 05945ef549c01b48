-- ?1 outbox, ?2 limit: in order of settling. The plus keeps the number index out: the rowid is the order.
select id, settled_at from tidegate_outbox_archive where +outbox = ?1 order by id limit ?2
