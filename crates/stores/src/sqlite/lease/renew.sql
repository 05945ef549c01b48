-- ?1: a JSON array of [scope, token, nonce in hex].
update tidegate_lease set lease_until = ?2 + ttl
from json_each(?1) as mine
where scope = mine.value ->> 0 and token = mine.value ->> 1 and nonce = unhex(mine.value ->> 2)
  and boot = ?3 and lease_until > ?2
returning scope, token, nonce
