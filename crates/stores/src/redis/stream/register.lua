-- KEYS: registers, meta. ARGV: incarnation if there is none, then lane and token of each. Answers each register.
redis.call('HSETNX', KEYS[2], 'incarnation', ARGV[1])
local all = {}
for at = 2, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[at])
  local n, token, chain = '0', '0', '00000000000000000000000000000000'
  if held then n, token, chain = string.match(held, '^(%d+) (%d+) (%x+)$') end
  if not held or tonumber(token) < tonumber(ARGV[at + 1]) then
    token = ARGV[at + 1]
    redis.call('HSET', KEYS[1], ARGV[at], n .. ' ' .. token .. ' ' .. chain)
  end
  all[#all + 1] = n .. ' ' .. token .. ' ' .. chain
end
return all
