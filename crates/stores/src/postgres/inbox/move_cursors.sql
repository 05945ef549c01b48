-- $1 consumer, $2 member, $3 [[lineage, lane, token, cursor_hi, cursor_lo], ...]
update tidegate.consumer_lane as l
set cursor_hi = (value ->> 3)::bigint, cursor_lo = (value ->> 4)::bigint
from json_array_elements($3::text::json) as moved(value)
where l.consumer = $1 and l.lineage = (value ->> 0)::uuid and l.lane = (value ->> 1)::int
  and l.owner = $2 and l.token = (value ->> 2)::bigint
  and (l.cursor_hi, l.cursor_lo) < ((value ->> 3)::bigint, (value ->> 4)::bigint)
