-- ?2 [lineage, lane, n, upto, token, alone]
insert into tidegate_inbox_attempt (consumer, lineage, lane, n, upto, token, alone, tenures)
select ?1, unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, 0
from json_each(?2)
