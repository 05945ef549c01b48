-- $1, $2, $3: scope, token, nonce. No row: refused.
insert into tidegate.fence as f (scope, token, nonce) values ($1, $2, $3)
on conflict (scope) do update set token = excluded.token, nonce = excluded.nonce
where f.token < excluded.token or (f.token = excluded.token and f.nonce = excluded.nonce)
returning token
