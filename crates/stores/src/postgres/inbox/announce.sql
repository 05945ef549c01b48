-- $2 [[lineage, lane, n, upto, token, alone], ...]
insert into tidegate.inbox_attempt (consumer, lineage, lane, n, upto, token, alone, tenures)
select $1, (value ->> 0)::uuid, (value ->> 1)::int, (value ->> 2)::bigint, (value ->> 3)::bigint, (value ->> 4)::bigint, (value ->> 5)::boolean, 0
from json_array_elements($2::text::json) as j(value)
