insert into tidegate.consumer_lane
  (consumer, lineage, lane, hw, start, chain, cursor_hi, cursor_lo, clean)
select $1, (value ->> 0)::uuid, (value ->> 1)::int, (value ->> 2)::bigint, (value ->> 2)::bigint, decode(value ->> 3, 'hex'),
  (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::boolean
from json_array_elements($2::text::json) as j(value)
on conflict do nothing
