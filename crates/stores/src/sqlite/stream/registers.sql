-- ?1 stream
select lineage, lane, n, token, chain from tidegate_register where stream = ?1 order by lineage, lane
