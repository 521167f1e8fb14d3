-- Prolongs the holder's lease, and names the standby that may have groups which the server lacks, or none.
-- KEYS: as of the script that takes the lease. ARGV: epoch, holder, the octets of the standby's incarnation or an empty string, the
-- checksum of its record.
-- A command that needs no memory comes first: after it the server takes the others also without memory.
redis.call('HDEL', KEYS[1], '-')
local state = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'last', 'checked')
if state[1] ~= ARGV[1] or state[2] ~= ARGV[2] then
  return {'FENCED', state[2] or ''}
end
redis.call('HINCRBY', KEYS[1], 'beat', 1)
local field, grown = '#0000000000000000', 0
if ARGV[3] == '' then
  grown = 0 - redis.call('HDEL', KEYS[12], field)
  redis.call('HDEL', KEYS[13], '8' .. field)
else
  grown = redis.call('HSET', KEYS[12], field, ARGV[3])
  redis.call('HSET', KEYS[13], '8' .. field, ARGV[4])
end
local last = state[3] or '0-0'
if (state[4] or '0-0') == last then
  redis.call('HINCRBY', KEYS[1], 'records', grown)
end
return {'WRITTEN', last, tostring(redis.call('EXISTS', KEYS[3])), '0'}
