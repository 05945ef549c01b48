-- Heads of parked keys and skipped events, oldest first; $2 state, $3 fingerprint, null for any.
select * from (
  select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
  p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, e.occurred_at, ''::bytea as payload
  from tidegate.inbox_parked as p
  join tidegate.inbox_parked_event as e
    on e.consumer = p.consumer and e.lineage = p.lineage and e.key = p.key and e.n = (
      select min(n) from tidegate.inbox_parked_event as first
      where first.consumer = p.consumer and first.lineage = p.lineage and first.key = p.key
    )
  where p.consumer = $1
  union all
  select s.lineage, s.lane, s.n, 'skipped' as state, s.key, s.class, s.fingerprint, s.message, 0 as attempts, 1::bigint as events, s.skipped_at as parked_at,
  s.skipped_at as failed_at, null::bigint as next_at, s.event_id, s.topic, s.event_key, s.version, s.content_type, s.headers, s.occurred_at, ''::bytea
  from tidegate.inbox_skipped as s where s.consumer = $1
) as letters
where ($2 is null or state = $2) and ($3 is null or fingerprint = $3)
order by parked_at, lineage, lane, n limit $4
