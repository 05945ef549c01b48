-- The waiting or skipped event at lineage $2, lane $3, number $4, with its payload.
select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
  p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, e.occurred_at, e.payload
from tidegate.inbox_parked_event as e
join tidegate.inbox_parked as p on p.consumer = e.consumer and p.lineage = e.lineage and p.key = e.key
where e.consumer = $1 and e.lineage = $2 and e.lane = $3 and e.n = $4
union all
select s.lineage, s.lane, s.n, 'skipped' as state, s.key, s.class, s.fingerprint, s.message, 0 as attempts, 1::bigint as events, s.skipped_at as parked_at,
  s.skipped_at as failed_at, null::bigint as next_at, s.event_id, s.topic, s.event_key, s.version, s.content_type, s.headers, s.occurred_at, s.payload
from tidegate.inbox_skipped as s
where s.consumer = $1 and s.lineage = $2 and s.lane = $3 and s.n = $4
