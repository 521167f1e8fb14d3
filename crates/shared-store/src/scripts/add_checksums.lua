-- Adds checksums of records that have none, and with none to add says that all records have one.
-- KEYS: as of the script that takes the lease. ARGV: epoch, holder, then names and checksums in turn.
redis.call('HDEL', KEYS[1], '-')
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last')
if state[1] ~= ARGV[1] or state[2] ~= ARGV[2] then
  return {'FENCED', state[2] or ''}
end
local last = state[3] or '0-0'
if #ARGV == 2 then
  redis.call('HSET', KEYS[1], 'checked', last, 'records', redis.call('HLEN', KEYS[13]))
end
for i = 3, #ARGV, 2 do
  local name = ARGV[i]
  if redis.call('HEXISTS', KEYS[4 + tonumber(string.sub(name, 1, 1))], string.sub(name, 2)) == 1 then
    redis.call('HSETNX', KEYS[13], name, ARGV[i + 1])
  end
end
return {'WRITTEN', last, '0', '0'}
