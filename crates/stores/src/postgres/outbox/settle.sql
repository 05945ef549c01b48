-- $1 outbox; $2 lanes, $3 seqs
delete from tidegate.outbox as o
using unnest($2::smallint[], $3::bigint[]) as d (lane, seq)
where o.outbox = $1 and o.lane = d.lane and o.seq = d.seq
returning o.seq, o.lane, o.event_id
