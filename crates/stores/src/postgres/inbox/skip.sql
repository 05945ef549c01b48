insert into tidegate.inbox_skipped
  (consumer, lineage, lane, n, key, class, fingerprint, message, skipped_at, event_id, topic, event_key, version, content_type, headers, payload, occurred_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
