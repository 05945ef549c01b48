select token, nonce from tidegate_fence where scope = ?1
