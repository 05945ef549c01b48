-- KEYS: fences. ARGV: scope, token, nonce. Answers nothing, or the token that refuses.
local held = redis.call('HGET', KEYS[1], ARGV[1])
if held then
  local token, nonce = string.match(held, '^(%d+) (%S+)$')
  local mine, theirs = tonumber(ARGV[2]), tonumber(token)
  if mine < theirs or (mine == theirs and nonce ~= ARGV[3]) then return token end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return false
