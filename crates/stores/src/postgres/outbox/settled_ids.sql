-- $1 outbox; $2 lanes, $3 seqs
select o.seq, o.lane, o.event_id
from unnest($2::smallint[], $3::bigint[]) as d (lane, seq)
join tidegate.outbox as o on o.outbox = $1 and o.lane = d.lane and o.seq = d.seq
