-- Parks the key of a skipped event, unless it is parked.
insert into tidegate.inbox_parked
  (consumer, lineage, key, lane, state, next_at, class, fingerprint, message, parked_at, failed_at)
select consumer, lineage, key, lane, 'retrying', $5, class, fingerprint, message, skipped_at, skipped_at
from tidegate.inbox_skipped
where consumer = $1 and lineage = $2 and lane = $3 and n = $4
on conflict do nothing
