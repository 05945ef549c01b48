-- The row lock keeps the register still until the transaction ends.
select true from tidegate.fence where scope = $1 and token = $2 and nonce = $3 for share
