-- $1 outbox, $2 slot, $3 the time, or null for the server's, $4 plan. The token rises as Token::next has it.
update tidegate.lane
set token = greatest(token + 1, coalesce($3, (extract(epoch from clock_timestamp()) * 1000000)::bigint)),
    plan = $4,
    parked = (select count(*) from tidegate.outbox_parked_key k where k.outbox = $1 and k.lane = $2)
where outbox = $1 and slot = $2
returning token
