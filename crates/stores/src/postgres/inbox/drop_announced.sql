-- Forgets what is announced in the lanes $2, as [lineage, lane, beyond this number].
delete from tidegate.inbox_attempt as a
using json_array_elements($2::text::json) as asked(value)
where a.consumer = $1 and a.lineage = (value ->> 0)::uuid and a.lane = (value ->> 1)::int and a.n > (value ->> 2)::bigint
