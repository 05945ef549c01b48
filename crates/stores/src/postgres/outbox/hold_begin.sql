-- $1 the time, or null for the server's; $2 outbox. Holds of an outbox follow each other.
select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
from tidegate.outbox_settings where id = $2 for no key update
