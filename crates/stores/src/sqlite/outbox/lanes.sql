-- ?1 outbox
select l.slot, l.token, l.label, l.owner, l.lease_until, l.boot, l.settled, length(l.plan) / 8,
       (select count(*) from tidegate_outbox o where o.outbox = l.outbox and o.lane = l.slot),
       (select o.occurred_at from tidegate_outbox o where o.outbox = l.outbox and o.lane = l.slot
        order by o.seq limit 1),
       l.parked, l.chain
from tidegate_lane l
where l.outbox = ?1
order by l.slot
