-- KEYS: registers, meta, lost. ARGV: incarnation if there is none, lane, token, from, through, chain.
redis.call('HSETNX', KEYS[2], 'incarnation', ARGV[1])
local held = redis.call('HGET', KEYS[1], ARGV[2])
local n, token, chain = '0', '0', '00000000000000000000000000000000'
if held then n, token, chain = string.match(held, '^(%d+) (%d+) (%x+)$') end
if tonumber(ARGV[3]) < tonumber(token) then return {'fenced', n, token, chain} end
if tonumber(ARGV[4]) ~= tonumber(n) + 1 or tonumber(ARGV[5]) < tonumber(ARGV[4]) then return {'moved', n, token, chain} end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[5] .. ' ' .. ARGV[3] .. ' ' .. ARGV[6])
redis.call('HSET', KEYS[3], ARGV[2] .. ' ' .. ARGV[4], ARGV[5] .. ' ' .. ARGV[6])
return {'through', ARGV[5], ARGV[3], ARGV[6]}
