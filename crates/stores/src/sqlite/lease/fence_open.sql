insert into tidegate_fence (scope, token, nonce) values (?1, ?2, ?3)
on conflict (scope) do update set token = excluded.token, nonce = excluded.nonce
