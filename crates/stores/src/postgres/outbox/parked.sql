-- $1 outbox, $2 limit
select k.lane, k.key, k.reason, k.attempts,
  (select count(*) from tidegate.outbox_parked p where p.outbox = k.outbox and p.parked_key = k.key)
from tidegate.outbox_parked_key k
where k.outbox = $1
order by k.key collate "C" limit $2
