insert into tidegate_lease (scope, token, nonce, holder, ttl, lease_until, boot) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (scope) do update set
  token = excluded.token, nonce = excluded.nonce, holder = excluded.holder, ttl = excluded.ttl,
  lease_until = excluded.lease_until, boot = excluded.boot
