insert into tidegate_inbox_attempt (consumer, lineage, lane, n, upto, token, alone, tenures)
values (?1, ?2, ?3, ?4, ?4, ?5, 1, 1)
on conflict do update
set tenures = tenures + (tenures = 0 or token <> excluded.token), token = excluded.token, alone = 1
returning tenures
