-- $1 outbox; $2 slots, $3 how many rows of each, $4 bytes: visible rows that have no number, lane by lane in order of seq.
-- Beyond the bytes the payload is left out, but for the first row of a lane.
with found as (
  select a.nth, a.most, o.*, row_number() over (partition by a.nth order by o.seq) as place,
    sum(o.bytes) over (order by a.nth, o.seq rows unbounded preceding) as total
  from unnest($2::smallint[], $3::bigint[]) with ordinality as a (slot, most, nth)
  join tidegate.lane as l on l.outbox = $1 and l.slot = a.slot
  cross join lateral (
    select o.seq, octet_length(o.payload) as bytes,
      o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.occurred_at, o.payload
    from tidegate.outbox as o
    where o.outbox = $1 and o.lane = l.slot and not (o.seq = any (l.plan))
    order by o.seq limit a.most
  ) as o
)
select nth, seq, bytes, event_id, topic, key, version, content_type, headers, occurred_at,
  case when most > 1 and (place = 1 or total <= $4) then payload end
from found
order by nth, seq
