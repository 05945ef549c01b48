-- KEYS: leases. ARGV: time in microseconds or empty, scope, nonce, holder, ttl, least token, wait of a scope that is not known.
-- A value holds token, ttl, end, nonce (- when vacant) and holder.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local ttl, least, wait = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local held = redis.call('HGET', KEYS[1], ARGV[2])
local token, lasts, ends, nonce, holder = '0', '0', '0', '-', ''
if held then
  token, lasts, ends, nonce, holder = string.match(held, '^(%d+) (%d+) (%-?%d+) (%S+) (.*)$')
elseif wait > 0 then
  -- Nobody remembers this scope: a holder from before a flush may still believe.
  redis.call('HSET', KEYS[1], ARGV[2], string.format('0 %.0f %.0f - ', wait, now + wait))
  return {'busy', string.format('%.0f', wait), ''}
end
local live = tonumber(ends) > now
if live and nonce ~= ARGV[3] then return {'busy', string.format('%.0f', tonumber(ends) - now), holder} end
local given
if live then given = math.max(tonumber(token), least) else given = math.max(tonumber(token) + 1, now, least) end
given = string.format('%.0f', given)
redis.call('HSET', KEYS[1], ARGV[2], given .. ' ' .. ARGV[5] .. ' ' .. string.format('%.0f', now + ttl) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return {'granted', given, ''}
