-- Prolongs the holder's lease and applies a group, if the server does not have it.
-- KEYS: as of the script that takes the lease.
-- ARGV: epoch, holder, milliseconds of the lease, the position before the group, the number of the group or 0 for
-- none, the position up to which groups are trimmed, epoch and holder before this holder; then the names and values of its changes in turn. A name is the
-- octet of the kind and the field; a value begins with '=', a removal has none.
-- A command that needs no memory comes first: after it the server takes the others also without memory.
redis.call('HDEL', KEYS[1], '-')
local epoch, holder = tonumber(ARGV[1]), ARGV[2]
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last', 'held')
local known = tonumber(state[1] or '0')
if known > epoch or (known == epoch and state[2] ~= holder) then
  return {'FENCED', state[2] or ''}
end
if known < epoch then
  -- The epoch was lost with a primary whose replica did not have it. Whoever took the lease there is not the one before this
  -- holder.
  local before = tonumber(ARGV[7])
  local is_another = known > before or (known == before and state[2] ~= ARGV[8])
  if state[4] == '1' and is_another then
    return {'FENCED', state[2]}
  end
  redis.call('HSET', KEYS[1], 'format', '1', 'epoch', ARGV[1], 'holder', holder, 'held', '1', 'lease_ms', ARGV[3])
end
-- The sign of life that others look at.
redis.call('HINCRBY', KEYS[1], 'beat', 1)
-- The same for adits of release 0.1.0, which go by the time to live.
redis.call('SET', KEYS[2], holder .. ';beat', 'PX', ARGV[3])
local asked = tostring(redis.call('EXISTS', KEYS[3]))
local last = state[3] or '0-0'
local number = tonumber(ARGV[5])
local last_epoch, last_number = string.match(last, '^(%d+)-(%d+)$')
if number == 0 or (tonumber(last_epoch) == epoch and tonumber(last_number) >= number) then
  return {'WRITTEN', last, asked}
end
if last ~= ARGV[4] then
  return {'GAP', last, asked}
end
for i = 9, #ARGV, 2 do
  local key = KEYS[4 + tonumber(string.sub(ARGV[i], 1, 1))]
  if ARGV[i + 1] == '' then
    redis.call('HDEL', key, string.sub(ARGV[i], 2))
  else
    redis.call('HSET', key, string.sub(ARGV[i], 2), string.sub(ARGV[i + 1], 2))
  end
end
local position = ARGV[1] .. '-' .. ARGV[5]
if ARGV[6] == '0-0' then
  redis.call('XADD', KEYS[4], position, 'after', last, unpack(ARGV, 9))
else
  redis.call('XADD', KEYS[4], 'MINID', '~', ARGV[6], position, 'after', last, unpack(ARGV, 9))
end
redis.call('HSET', KEYS[1], 'last', position)
return {'WRITTEN', position, asked}
