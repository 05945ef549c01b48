-- KEYS: leases. ARGV: time in microseconds or empty, then scope, token and nonce of each. Answers 1 for each that is held.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local all = {}
for at = 2, #ARGV, 3 do
  local held, mine = redis.call('HGET', KEYS[1], ARGV[at]), 0
  if held then
    local token, lasts, ends, nonce, holder = string.match(held, '^(%d+) (%d+) (%-?%d+) (%S+) (.*)$')
    if token == ARGV[at + 1] and nonce == ARGV[at + 2] and tonumber(ends) > now then
      mine = 1
      local until_then = string.format('%.0f', now + tonumber(lasts))
      redis.call('HSET', KEYS[1], ARGV[at], token .. ' ' .. lasts .. ' ' .. until_then .. ' ' .. nonce .. ' ' .. holder)
    end
  end
  all[#all + 1] = mine
end
return all
