-- Payloads lie end to end in $3; each event knows where its own begins.
insert into tidegate.inbox_parked_event
  (consumer, lineage, key, lane, n, event_id, topic, event_key, version, content_type, headers, occurred_at, payload)
select $1, (value ->> 0)::uuid, value ->> 1, (value ->> 2)::int, (value ->> 3)::bigint, (value ->> 4)::uuid, value ->> 5, value ->> 6,
  (value ->> 7)::bigint, value ->> 8, value ->> 9, (value ->> 10)::bigint, substring($3 from (value ->> 11)::int for (value ->> 12)::int)
from json_array_elements($2::text::json) as j(value)
