-- $1 outbox. In order of slot, as turns lock them.
select slot, token, owner, label, lease_until, settled, chain, cardinality(plan)
from tidegate.lane where outbox = $1 order by slot for no key update
