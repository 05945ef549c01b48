-- $1 outbox; $2 slots, $3 settled numbers, $4 chains, $5 plans
update tidegate.lane as l
set settled = v.settled, chain = v.chain, plan = v.plan::bigint[]
from unnest($2::smallint[], $3::bigint[], $4::bytea[], $5::text[]) as v (slot, settled, chain, plan)
where l.outbox = $1 and l.slot = v.slot
