-- $1: the time, or null for the server's. $2, $3, $4: scopes, tokens, nonces. Rows are locked in order of scope, so that two renewals never
-- wait for each other.
with clock as (select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now),
mine as materialized (
  select l.scope, l.token, l.nonce
  from tidegate.lease l
  join unnest($2, $3, $4) as m (scope, token, nonce) on l.scope = m.scope
  where l.token = m.token and l.nonce = m.nonce
  order by l.scope
  for update of l
)
update tidegate.lease as l set lease_until = clock.now + l.ttl
from mine, clock
where l.scope = mine.scope and l.token = mine.token and l.nonce = mine.nonce and l.lease_until > clock.now
returning l.scope, l.token, l.nonce
