-- KEYS: leases. ARGV: channel, scope, token, nonce. The token stays.
local held = redis.call('HGET', KEYS[1], ARGV[2])
if not held then return 0 end
local token, lasts, ends, nonce = string.match(held, '^(%d+) (%d+) (%-?%d+) (%S+) ')
if token ~= ARGV[3] or nonce ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], token .. ' ' .. lasts .. ' 0 - ')
redis.call('PUBLISH', ARGV[1], '')
return 1
