update tidegate_lease set nonce = null, holder = null where scope = ?1
