-- $1 outbox, $2 member; $3 slots, $4 tokens: those that are still the member's, and whether rows wait there. Locks nothing.
select m.nth, exists (
    select from tidegate.outbox as o
    where o.outbox = l.outbox and o.lane = l.slot and not (o.seq = any (l.plan)))
from unnest($3::smallint[], $4::bigint[]) with ordinality as m (slot, token, nth)
join tidegate.lane l on l.outbox = $1 and l.slot = m.slot
where l.owner = $2 and l.token = m.token
