insert into tidegate_inbox_audit (consumer, at, action, reason, lineage, lane, n, event_id, fingerprint)
values (?1, ?2, 'skip-lost', ?3, ?4, ?5, ?6, zeroblob(16), ?7)
