insert into tidegate.inbox_attempt as a (consumer, lineage, lane, n, upto, token, alone, tenures)
values ($1, $2, $3, $4, $4, $5, true, 1)
on conflict (consumer, lineage, lane, n) do update
set tenures = a.tenures + (a.tenures = 0 or a.token <> excluded.token)::int, token = excluded.token, alone = true
returning tenures
