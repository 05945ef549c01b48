-- $1 outbox, $2 member; $3 slots, $4 tokens: those that are still the member's, locked in order of slot.
select m.nth, l.settled, l.chain, l.plan, l.parked
from unnest($3::smallint[], $4::bigint[]) with ordinality as m (slot, token, nth)
join tidegate.lane l on l.outbox = $1 and l.slot = m.slot
where l.owner = $2 and l.token = m.token
order by l.slot
for no key update of l
