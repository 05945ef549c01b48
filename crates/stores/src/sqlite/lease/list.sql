select scope, token, nonce, holder, ttl, lease_until, boot from tidegate_lease order by scope
