update tidegate_lease set token = max(token, ?4) + 1
where scope = ?1 and token = ?2 and nonce = ?3 and boot = ?6 and lease_until > ?5
returning token
