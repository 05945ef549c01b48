-- Heads of parked keys and skipped events, oldest first; ?2 state, ?3 fingerprint, null for any.
select * from (
  select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
    p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, x'' as payload,
    e.occurred_at
  from tidegate_inbox_parked as p
  join tidegate_inbox_parked_event as e
    on e.consumer = p.consumer and e.lineage = p.lineage and e.key = p.key and e.n = (
      select min(n) from tidegate_inbox_parked_event as first
      where first.consumer = p.consumer and first.lineage = p.lineage and first.key = p.key
    )
  where p.consumer = ?1
  union all
  select lineage, lane, n, 'skipped', key, class, fingerprint, message, 0, 1, skipped_at, skipped_at, null, event_id,
    topic, event_key, version, content_type, headers, x'', occurred_at
  from tidegate_inbox_skipped where consumer = ?1
)
where (?2 is null or state = ?2) and (?3 is null or fingerprint = ?3)
order by parked_at, lineage, lane, n limit ?4
