-- $1: the time, or null for the server's. $2, $3, $4: scope, token, nonce. $5: above this.
with clock as (select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now)
update tidegate.lease as l set token = greatest(l.token, $5) + 1
from clock
where l.scope = $2 and l.token = $3 and l.nonce = $4 and l.lease_until > clock.now
returning l.token
