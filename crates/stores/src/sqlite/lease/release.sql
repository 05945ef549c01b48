update tidegate_lease set nonce = null, holder = null where scope = ?1 and token = ?2 and nonce = ?3
