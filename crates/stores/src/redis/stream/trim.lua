-- KEYS: entries, holds. ARGV: only entries of an earlier millisecond than this, limit. Deletes from the oldest on, and stops at the first that stays.
local function parse(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)')
  return tonumber(ms), tonumber(seq)
end
local held_ms, held_seq
for at, value in ipairs(redis.call('HVALS', KEYS[2])) do
  local ms, seq = parse(value)
  if not held_ms or ms < held_ms or (ms == held_ms and seq < held_seq) then held_ms, held_seq = ms, seq end
end
local before, last, count = tonumber(ARGV[1]), nil, 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])) do
  local ms, seq = parse(entry[1])
  local free = not held_ms or ms < held_ms or (ms == held_ms and seq <= held_seq)
  if ms >= before or not free then break end
  last, count = {ms, seq}, count + 1
end
if last then redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-%.0f', last[1], last[2] + 1)) end
return count
