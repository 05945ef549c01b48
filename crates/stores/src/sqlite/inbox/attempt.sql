insert into tidegate_inbox_attempt (consumer, lineage, lane, n, token, tenures) values (?1, ?2, ?3, ?4, ?5, 1)
on conflict do update set tenures = tenures + (token <> excluded.token), token = excluded.token
returning tenures
