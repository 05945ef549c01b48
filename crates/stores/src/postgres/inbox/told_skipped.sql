update tidegate.inbox_skipped as s set told = true
from json_array_elements($2::text::json) as taken(value)
where s.consumer = $1 and s.lineage = (value ->> 0)::uuid and s.lane = (value ->> 1)::int and s.n = (value ->> 2)::bigint
  and s.skipped_at = (value ->> 3)::bigint
