select token, nonce from tidegate.fence where scope = $1
