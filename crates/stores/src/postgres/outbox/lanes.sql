-- $1 outbox, $2 the time, or null for the server's
with clock as (select coalesce($2, (extract(epoch from clock_timestamp()) * 1000000)::bigint) as now)
select l.slot, l.token, l.owner is not null and l.lease_until > clock.now, l.label, l.settled, cardinality(l.plan),
  (select count(*) from tidegate.outbox o where o.outbox = l.outbox and o.lane = l.slot),
  clock.now - (select o.occurred_at from tidegate.outbox o
               where o.outbox = l.outbox and o.lane = l.slot order by o.seq limit 1),
  l.parked
from tidegate.lane l cross join clock
where l.outbox = $1
order by l.slot
