-- Dead and skipped events that no sink has taken, oldest first. ?2 limit, ?3 lanes or null, ?4 to ?7 the place of the
-- letter before. Each part ends by its index after so many rows.
select * from (
  select p.lineage, p.lane, e.n, p.state, p.key, p.class, p.fingerprint, p.message, p.attempts, p.events, p.parked_at,
    p.failed_at, p.next_at, e.event_id, e.topic, e.event_key, e.version, e.content_type, e.headers, e.payload,
    e.occurred_at
  from tidegate_inbox_parked as p
  join tidegate_inbox_parked_event as e
    on e.consumer = p.consumer and e.lineage = p.lineage and e.key = p.key and e.n = (
      select min(n) from tidegate_inbox_parked_event as first
      where first.consumer = p.consumer and first.lineage = p.lineage and first.key = p.key
    )
  where p.consumer = ?1 and p.state = 'dead' and p.told = 0 and p.parked_at >= ?4
    and (p.parked_at, p.lineage, p.lane, e.n) > (?4, ?5, ?6, ?7)
    and (?3 is null or exists (
      select 1 from json_each(?3) where unhex(value ->> 0) = p.lineage and value ->> 1 = p.lane
    ))
  order by p.parked_at, p.lineage, p.lane, e.n limit ?2
)
union all
select * from (
  select lineage, lane, n, 'skipped', key, class, fingerprint, message, 0, 1, skipped_at, skipped_at, null, event_id,
    topic, event_key, version, content_type, headers, payload, occurred_at
  from tidegate_inbox_skipped as s
  where consumer = ?1 and told = 0 and skipped_at >= ?4 and (skipped_at, lineage, lane, n) > (?4, ?5, ?6, ?7)
    and (?3 is null or exists (
      select 1 from json_each(?3) where unhex(value ->> 0) = s.lineage and value ->> 1 = s.lane
    ))
  order by skipped_at, lineage, lane, n limit ?2
)
order by parked_at, lineage, lane, n limit ?2
