insert into tidegate.inbox_parked
  (consumer, lineage, key, lane, state, next_at, class, fingerprint, message, parked_at, failed_at)
select $1, (value ->> 0)::uuid, value ->> 1, (value ->> 2)::int, value ->> 3, (value ->> 4)::bigint, value ->> 5, value ->> 6,
  value ->> 7, (value ->> 8)::bigint, (value ->> 8)::bigint
from json_array_elements($2::text::json) as j(value)
