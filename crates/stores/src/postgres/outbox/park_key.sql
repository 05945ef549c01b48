-- $1 outbox, $2 key, $3 lane, $4 reason, $5 the time, or null for the server's
insert into tidegate.outbox_parked_key as k (outbox, key, lane, reason, attempts, parked_at)
values ($1, $2, $3, $4, 1, coalesce($5, (extract(epoch from clock_timestamp()) * 1000000)::bigint))
on conflict (outbox, key) do update set reason = excluded.reason, attempts = k.attempts + 1
