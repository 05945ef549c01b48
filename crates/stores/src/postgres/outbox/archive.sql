-- $1 outbox, $2 the time, or null for the server's; $3 lanes, $4 numbers, $5 chains before them, $6 seqs. Moves the rows;
-- a void marker has none.
with d as (
  select * from unnest($3::smallint[], $4::bigint[], $5::bytea[], $6::bigint[]) with ordinality as d (lane, n, prior, seq, nth)
),
gone as (
  delete from tidegate.outbox as o using d where o.outbox = $1 and o.lane = d.lane and o.seq = d.seq
  returning o.*
)
insert into tidegate.outbox_archive
  (outbox, lane, n, prior, settled_at, event_id, topic, key, version, content_type, headers, payload, occurred_at)
select $1, d.lane, d.n, d.prior, coalesce($2, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
  g.event_id, g.topic, g.key, g.version, g.content_type, g.headers, g.payload, g.occurred_at
from d left join gone as g on g.lane = d.lane and g.seq = d.seq
order by d.nth
