-- Begins to write all records again, on a server that lost some, or ends it.
-- KEYS: as of the script that takes the lease.
-- ARGV: epoch, holder, the position before the first group that follows, or an empty string at the end.
redis.call('HDEL', KEYS[1], '-')
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last')
if state[1] ~= ARGV[1] or state[2] ~= ARGV[2] then
  return {'FENCED', state[2] or ''}
end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], 'filling')
  return {'WRITTEN', state[3] or '0-0', '0', '0'}
end
redis.call('UNLINK', unpack(KEYS, 4))
redis.call('HDEL', KEYS[1], 'damaged')
redis.call('HSET', KEYS[1], 'filling', '1', 'last', ARGV[3], 'checked', ARGV[3], 'records', '0')
return {'WRITTEN', ARGV[3], '0', '0'}
