-- $1: the time, or null for the server's. $2..$6: scope, nonce, holder, ttl, least token. No row: somebody else holds it.
with clock as (select coalesce($1, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now)
insert into tidegate.lease as l (scope, token, nonce, holder, ttl, lease_until)
select $2, greatest(1, clock.now, $6), $3, $4, $5, clock.now + $5 from clock
on conflict (scope) do update set
  token = case
    when l.nonce = excluded.nonce and l.lease_until > excluded.lease_until - excluded.ttl then greatest(l.token, $6)
    else greatest(l.token + 1, excluded.lease_until - excluded.ttl, $6)
  end,
  nonce = excluded.nonce, holder = excluded.holder, ttl = excluded.ttl, lease_until = excluded.lease_until
where l.nonce is null or l.nonce = excluded.nonce or l.lease_until <= excluded.lease_until - excluded.ttl
returning token
