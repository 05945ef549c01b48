insert into tidegate.inbox_audit (consumer, at, action, reason, lineage, lane, n, event_id, fingerprint)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
