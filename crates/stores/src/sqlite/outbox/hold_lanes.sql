-- ?1 outbox
select slot, token, owner, coalesce(label, ''), lease_until, boot, settled, chain, length(plan) / 8
from tidegate_lane
where outbox = ?1
order by slot
