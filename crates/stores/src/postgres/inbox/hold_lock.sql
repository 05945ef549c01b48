-- $1 consumer, $2 the time or null. One hold at a time; answers the time.
select coalesce($2, (extract(epoch from clock_timestamp()) * 1000000)::bigint) from tidegate.consumer where id = $1 for update
