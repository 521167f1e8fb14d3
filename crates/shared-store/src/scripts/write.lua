-- Prolongs the holder's lease and applies a group, if the server does not have it.
-- KEYS: as of the script that takes the lease.
-- ARGV: epoch, holder, milliseconds of the lease, the position before the group, the number of the group or 0 for
-- none, the position up to which groups are trimmed; then the names and values of its changes in turn. A name is the
-- octet of the kind and the field; a value begins with '=', a removal has none.
local epoch, holder = tonumber(ARGV[1]), ARGV[2]
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last')
local known = tonumber(state[1] or '0')
if known > epoch or (known == epoch and state[2] ~= holder) then
  return {'FENCED', state[2] or ''}
end
if known < epoch then
  -- The epoch was lost with a primary whose replica did not have it.
  local leased = redis.call('GET', KEYS[2])
  if leased and leased ~= holder then
    return {'FENCED', leased}
  end
  redis.call('HSET', KEYS[1], 'format', '1', 'epoch', ARGV[1], 'holder', holder)
end
redis.call('SET', KEYS[2], holder, 'PX', ARGV[3])
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
for i = 7, #ARGV, 2 do
  local key = KEYS[4 + tonumber(string.sub(ARGV[i], 1, 1))]
  if ARGV[i + 1] == '' then
    redis.call('HDEL', key, string.sub(ARGV[i], 2))
  else
    redis.call('HSET', key, string.sub(ARGV[i], 2), string.sub(ARGV[i + 1], 2))
  end
end
local position = ARGV[1] .. '-' .. ARGV[5]
if ARGV[6] == '0-0' then
  redis.call('XADD', KEYS[4], position, 'after', last, unpack(ARGV, 7))
else
  redis.call('XADD', KEYS[4], 'MINID', '~', ARGV[6], position, 'after', last, unpack(ARGV, 7))
end
redis.call('HSET', KEYS[1], 'last', position)
return {'WRITTEN', position, asked}
