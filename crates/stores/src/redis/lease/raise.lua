-- KEYS: leases. ARGV: time in microseconds or empty, scope, token, nonce, above. Answers the new token, or nothing.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local held = redis.call('HGET', KEYS[1], ARGV[2])
if not held then return false end
local token, lasts, ends, nonce, holder = string.match(held, '^(%d+) (%d+) (%-?%d+) (%S+) (.*)$')
if token ~= ARGV[3] or nonce ~= ARGV[4] or tonumber(ends) <= now then return false end
token = string.format('%.0f', math.max(tonumber(token), tonumber(ARGV[5])) + 1)
redis.call('HSET', KEYS[1], ARGV[2], token .. ' ' .. lasts .. ' ' .. ends .. ' ' .. nonce .. ' ' .. holder)
return token
