-- $1: the time, or null for the server's. $2: the scope. $3: the channel. Answers the record as it was.
with clock as (select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now),
before as (
  select scope, token, nonce, holder, ttl, lease_until from tidegate.lease
  where scope = $2 and nonce is not null
  for update
),
broken as (
  update tidegate.lease as l set nonce = null, holder = null
  from before
  where l.scope = before.scope
  returning l.scope
)
select before.scope, before.token, before.nonce, before.holder, before.ttl,
  greatest(before.lease_until - clock.now, 0), pg_notify($3, '')::text
from before join broken on true, clock
