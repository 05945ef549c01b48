-- ?1 outbox, ?2 member, ?3 [[slot, token], …]: the lanes that are still this member's, and what a turn needs of them.
select j.key, l.slot, l.settled, l.chain, l.plan, l.floor, l.parked,
       exists (select 1 from tidegate_outbox o where o.outbox = l.outbox and o.lane = l.slot and o.seq > l.floor)
from json_each(?3) j
cross join tidegate_lane l on l.outbox = ?1 and l.slot = j.value ->> 0
where l.owner = ?2 and l.token = j.value ->> 1
