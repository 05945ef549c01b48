-- $1 consumer, $2 member, $3 the lanes: compare-and-set of member, token and hw.
update tidegate.consumer_lane as l
set hw = (value ->> 4)::bigint, chain = decode(value ->> 5, 'hex'), cursor_hi = (value ->> 6)::bigint, cursor_lo = (value ->> 7)::bigint,
  applied = l.applied + (value ->> 8)::bigint, voids = l.voids + (value ->> 9)::bigint,
  skipped = l.skipped + (value ->> 10)::bigint, parked = l.parked + (value ->> 11)::bigint
from json_array_elements($3::text::json) as moved(value)
where l.consumer = $1 and l.lineage = (value ->> 0)::uuid and l.lane = (value ->> 1)::int
  and l.owner = $2 and l.token = (value ->> 2)::bigint and l.hw = (value ->> 3)::bigint
