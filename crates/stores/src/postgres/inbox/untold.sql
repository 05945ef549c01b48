-- Dead and skipped events that no sink has taken, oldest first. $2 limit, $3 lanes or null, $4 to $7 the place of the letter before.
select * from (
  (select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
  p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, e.occurred_at, e.payload
  from tidegate.inbox_parked as p
  join tidegate.inbox_parked_event as e
    on e.consumer = p.consumer and e.lineage = p.lineage and e.key = p.key and e.n = (
      select min(n) from tidegate.inbox_parked_event as first
      where first.consumer = p.consumer and first.lineage = p.lineage and first.key = p.key
    )
  where p.consumer = $1 and p.state = 'dead' and not p.told and p.parked_at >= $4
    and (p.parked_at, p.lineage, p.lane, e.n) > ($4, $5, $6, $7)
    and ($3 is null or (p.lineage, p.lane) in (select (value ->> 0)::uuid, (value ->> 1)::int from json_array_elements($3::text::json) as j(value)))
  order by p.parked_at, p.lineage, p.lane, e.n limit $2)
  union all
  (select s.lineage, s.lane, s.n, 'skipped' as state, s.key, s.class, s.fingerprint, s.message, 0 as attempts, 1::bigint as events, s.skipped_at as parked_at,
  s.skipped_at as failed_at, null::bigint as next_at, s.event_id, s.topic, s.event_key, s.version, s.content_type, s.headers, s.occurred_at, s.payload
  from tidegate.inbox_skipped as s
  where s.consumer = $1 and not s.told and s.skipped_at >= $4 and (s.skipped_at, s.lineage, s.lane, s.n) > ($4, $5, $6, $7)
    and ($3 is null or (s.lineage, s.lane) in (select (value ->> 0)::uuid, (value ->> 1)::int from json_array_elements($3::text::json) as j(value)))
  order by s.skipped_at, s.lineage, s.lane, s.n limit $2)
) as letters
order by parked_at, lineage, lane, n limit $2
