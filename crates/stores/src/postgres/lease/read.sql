-- $1: the time, or null for the server's. $2: the scope, or null for all.
with clock as (select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now)
select scope, token, nonce, holder, ttl, greatest(lease_until - clock.now, 0)
from tidegate.lease, clock
where $2 is null or scope = $2
order by scope collate "C"
