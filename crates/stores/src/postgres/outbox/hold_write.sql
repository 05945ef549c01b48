-- $1 outbox; $2 slots, $3 owners, $4 labels, $5 tokens, $6 ends, $7 tokens as they were read
update tidegate.lane as l
set owner = v.owner, label = v.label, token = v.token, lease_until = v.lease_until
from unnest($2::smallint[], $3::uuid[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
  as v (slot, owner, label, token, lease_until, was)
where l.outbox = $1 and l.slot = v.slot and l.token = v.was
