-- KEYS: entries, meta. ARGV: incarnation if there is none, cursor, limit, bytes, then the lanes, if only these.
-- Answers: incarnation, last id, scanned id, entries as id, lane, number, chain, event; and 1 when it stopped early, to hold the server no longer.
redis.call('HSETNX', KEYS[2], 'incarnation', ARGV[1])
local last = '0-0'
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for at = 1, #info, 2 do if info[at] == 'last-generated-id' then last = info[at + 1] end end
end
local wanted
if #ARGV > 4 then
  wanted = {}
  for at = 5, #ARGV do wanted[ARGV[at]] = true end
end
local limit, bytes, looked = tonumber(ARGV[3]), tonumber(ARGV[4]), 0
local scanned, found, early = ARGV[2], {}, 0
while #found < limit and (#found == 0 or bytes > 0) do
  if looked >= 5000 then
    early = 1
    break
  end
  local page = redis.call('XRANGE', KEYS[1], '(' .. scanned, '+', 'COUNT', 64)
  if #page == 0 then
    -- Nothing more of any lane: all of it is scanned.
    scanned = last
    break
  end
  for _, entry in ipairs(page) do
    if #found >= limit or (#found > 0 and bytes <= 0) then break end
    scanned, looked = entry[1], looked + 1
    local fields = {}
    for at = 1, #entry[2], 2 do fields[entry[2][at]] = entry[2][at + 1] end
    if not wanted or wanted[fields.lane] then
      found[#found + 1] = {entry[1], fields.lane, fields.n, fields.chain, fields.event}
      bytes = bytes - tonumber(fields.size)
    end
  end
end
return {redis.call('HGET', KEYS[2], 'incarnation'), last, scanned, found, early}
