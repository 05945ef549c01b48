-- $1 outbox, $2 parked keys, the first that is there counts
select key, lane from tidegate.outbox_parked_key where outbox = $1 and key = any ($2::text[]) order by key collate "C" desc limit 1
