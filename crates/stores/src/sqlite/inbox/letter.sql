-- The waiting or skipped event at lineage ?2, lane ?3, number ?4, with its payload.
select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
  p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, e.payload,
  e.occurred_at
from tidegate_inbox_parked_event as e
join tidegate_inbox_parked as p on p.consumer = e.consumer and p.lineage = e.lineage and p.key = e.key
where e.consumer = ?1 and e.lineage = ?2 and e.lane = ?3 and e.n = ?4
union all
select lineage, lane, n, 'skipped', key, class, fingerprint, message, 0, 1, skipped_at, skipped_at, null, event_id,
  topic, event_key, version, content_type, headers, payload, occurred_at
from tidegate_inbox_skipped
where consumer = ?1 and lineage = ?2 and lane = ?3 and n = ?4
