-- $1 outbox; $2 lanes, $3 seqs
select o.seq, o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.occurred_at, o.payload
from unnest($2::smallint[], $3::bigint[]) as d (lane, seq)
join tidegate.outbox as o on o.outbox = $1 and o.lane = d.lane and o.seq = d.seq
