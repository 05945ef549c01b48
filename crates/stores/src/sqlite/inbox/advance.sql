-- Compare-and-set of member, token and hw; every lane of ?3 at once.
update tidegate_consumer_lane as l
set hw = moved.hw, chain = moved.chain, cursor_hi = moved.cursor_hi, cursor_lo = moved.cursor_lo,
  applied = l.applied + moved.applied, voids = l.voids + moved.voids,
  skipped = l.skipped + moved.skipped, parked = l.parked + moved.parked
from (
  select unhex(value ->> 0) as lineage, value ->> 1 as lane, value ->> 2 as token, value ->> 3 as before,
    value ->> 4 as hw, unhex(value ->> 5) as chain, value ->> 6 as cursor_hi, value ->> 7 as cursor_lo,
    value ->> 8 as applied, value ->> 9 as voids, value ->> 10 as skipped, value ->> 11 as parked
  from json_each(?3)
) as moved
where l.consumer = ?1 and l.lineage = moved.lineage and l.lane = moved.lane
  and l.owner = ?2 and l.token = moved.token and l.hw = moved.before
