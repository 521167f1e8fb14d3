-- Prolongs the holder's lease and applies a group, if the server does not have it.
-- KEYS: as of the script that takes the lease.
-- ARGV: epoch, holder, milliseconds of the lease, the position before the group, the number of the group or 0 for
-- none, the position up to which groups are trimmed, epoch and holder before this holder; then, of a group, the checksums of its
-- changes, four octets each, and their names and values in turn. A name is the octet of the kind and the field; a value begins
-- with '=', a removal has none.
-- A command that needs no memory comes first: after it the server takes the others also without memory.
redis.call('HDEL', KEYS[1], '-')
local epoch, holder = tonumber(ARGV[1]), ARGV[2]
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last', 'held', 'checked', 'records', 'damaged')
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
-- Whoever wrote the last group wrote checksums.
local is_checked = (state[5] or '0-0') == last
if number == 0 then
  local damaged = '0'
  if is_checked then
    local known, count = tonumber(state[6] or '0'), 0
    for i = 5, 12 do
      count = count + redis.call('HLEN', KEYS[i])
    end
    if state[7] or count ~= known or redis.call('HLEN', KEYS[13]) ~= known then
      damaged = '1'
    end
  end
  return {'WRITTEN', last, asked, damaged}
end
local last_epoch, last_number = string.match(last, '^(%d+)-(%d+)$')
if tonumber(last_epoch) == epoch and tonumber(last_number) >= number then
  return {'WRITTEN', last, asked, '0'}
end
if last ~= ARGV[4] then
  return {'GAP', last}
end
local grown = 0
for i = 10, #ARGV, 2 do
  local name = ARGV[i]
  local key, field = KEYS[4 + tonumber(string.sub(name, 1, 1))], string.sub(name, 2)
  if ARGV[i + 1] == '' then
    grown = grown - redis.call('HDEL', key, field)
    redis.call('HDEL', KEYS[13], name)
  else
    local at = 2 * (i - 10)
    grown = grown + redis.call('HSET', key, field, string.sub(ARGV[i + 1], 2))
    redis.call('HSET', KEYS[13], name, string.sub(ARGV[9], at + 1, at + 4))
  end
end
local position = ARGV[1] .. '-' .. ARGV[5]
-- Adits of release 0.1.0 pass over a change of the record of a standby; none has this name.
local name, value = '8=checksums', '=' .. ARGV[9]
if ARGV[6] == '0-0' then
  redis.call('XADD', KEYS[4], position, 'after', last, name, value, unpack(ARGV, 10))
else
  redis.call('XADD', KEYS[4], 'MINID', '~', ARGV[6], position, 'after', last, name, value, unpack(ARGV, 10))
end
redis.call('HSET', KEYS[1], 'last', position)
if is_checked then
  redis.call('HSET', KEYS[1], 'checked', position)
  redis.call('HINCRBY', KEYS[1], 'records', grown)
end
return {'WRITTEN', position, asked, '0'}
