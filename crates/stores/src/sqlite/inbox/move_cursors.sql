update tidegate_consumer_lane as l
set cursor_hi = moved.cursor_hi, cursor_lo = moved.cursor_lo
from (
  select unhex(value ->> 0) as lineage, value ->> 1 as lane, value ->> 2 as token,
    value ->> 3 as cursor_hi, value ->> 4 as cursor_lo
  from json_each(?3)
) as moved
where l.consumer = ?1 and l.lineage = moved.lineage and l.lane = moved.lane
  and l.owner = ?2 and l.token = moved.token and (l.cursor_hi, l.cursor_lo) < (moved.cursor_hi, moved.cursor_lo)
