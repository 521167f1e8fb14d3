-- Takes the lease unless another holder has it.
-- KEYS: state, lease, handover, groups, then the hashes of records by the octet of their kind.
-- ARGV: newest format, instance, holder, milliseconds of the lease. A holder's name begins with its instance's.
local state = redis.call('HMGET', KEYS[1], 'format', 'epoch', 'holder', 'last')
if state[1] and tonumber(state[1]) > tonumber(ARGV[1]) then
  return {'NEWER', state[1]}
end
local leased = redis.call('GET', KEYS[2])
if leased and string.sub(leased, 1, #ARGV[2]) ~= ARGV[2] then
  return {'HELD', leased, tostring(redis.call('PTTL', KEYS[2]))}
end
local epoch = tonumber(state[2] or '0')
if state[3] ~= ARGV[3] then
  epoch = epoch + 1
end
local text = string.format('%d', epoch)
redis.call('HSET', KEYS[1], 'format', ARGV[1], 'epoch', text, 'holder', ARGV[3])
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
redis.call('DEL', KEYS[3])
return {'TAKEN', text, state[4] or '0-0'}
