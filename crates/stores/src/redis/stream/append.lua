-- KEYS: entries, registers, meta. ARGV: time in microseconds or empty, incarnation if there is none, lane, token, first number, chain before it,
-- number and chain after, count of entries, then for each entry its number, chain, payload bytes
-- and event (empty: a void marker).
-- Answers: what happened, and the register as it is then.
local held = redis.call('HGET', KEYS[2], ARGV[3])
local n, token, chain = '0', '0', '00000000000000000000000000000000'
if held then n, token, chain = string.match(held, '^(%d+) (%d+) (%x+)$') end
if tonumber(ARGV[4]) < tonumber(token) then return {'fenced', n, token, chain} end
local first, count = tonumber(ARGV[5]), tonumber(ARGV[9])
if first == 0 then return {'through', n, token, chain} end
if first ~= tonumber(n) + 1 or ARGV[6] ~= chain then return {'moved', n, token, chain} end
if count == 0 then return {'through', n, token, chain} end
redis.call('HSETNX', KEYS[3], 'incarnation', ARGV[2])
local id = '*'
if ARGV[1] ~= '' then
  -- A clock of the caller's: ids still only rise.
  local now = math.floor(tonumber(ARGV[1]) / 1000)
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  if last[1] then now = math.max(now, tonumber(string.match(last[1][1], '^(%d+)'))) end
  id = string.format('%.0f', now) .. '-*'
end
for at = 10, 9 + 4 * count, 4 do
  redis.call('XADD', KEYS[1], id, 'lane', ARGV[3], 'n', ARGV[at], 'chain', ARGV[at + 1], 'token', ARGV[4],
    'size', ARGV[at + 2], 'event', ARGV[at + 3])
end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[7] .. ' ' .. ARGV[4] .. ' ' .. ARGV[8])
return {'through', ARGV[7], ARGV[4], ARGV[8]}
