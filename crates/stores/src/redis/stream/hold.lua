-- KEYS: holds. ARGV: time in microseconds or empty, reader, id.
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] .. string.format('%06d', tonumber(time[2]))
end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. ' ' .. now)
