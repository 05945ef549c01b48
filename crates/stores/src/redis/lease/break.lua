-- KEYS: leases. ARGV: channel, scope. Answers the record as it was, or nothing.
local held = redis.call('HGET', KEYS[1], ARGV[2])
if not held then return false end
local token, lasts, ends, nonce = string.match(held, '^(%d+) (%d+) (%-?%d+) (%S+) ')
if nonce == '-' then return false end
redis.call('HSET', KEYS[1], ARGV[2], token .. ' ' .. lasts .. ' 0 - ')
redis.call('PUBLISH', ARGV[1], '')
return held
