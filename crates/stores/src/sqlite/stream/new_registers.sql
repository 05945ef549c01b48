-- ?1 stream, ?2 [[lineage as hex, lane], …]
insert or ignore into tidegate_register (stream, lineage, lane)
select ?1, unhex(j.value ->> 0), j.value ->> 1 from json_each(?2) j
