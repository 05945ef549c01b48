-- Locked: the register stays as it is until the step's transaction ends.
select token, nonce from tidegate.fence where scope = $1 for share
