-- Takes the lease: if nobody holds it, a former process of the same instance does, or its holder has not prolonged it since
-- the caller saw it, which the caller has measured to be longer than the lease.
-- KEYS: state, lease, handover, groups, then the hashes of records by the octet of their kind, and that of their checksums.
-- ARGV: newest format, instance, holder, milliseconds of the lease, epoch and beat that the caller saw, or two empty strings. A
-- holder's name begins with its instance's. At last the octets of the caller's incarnation as a standby, or an empty string, or '*'
-- for one who accepts that another standby is lost.
-- A command that needs no memory comes first: after it the server takes the others also without memory.
redis.call('HDEL', KEYS[1], '-')
local fields = {'format', 'epoch', 'holder', 'last', 'beat', 'held', 'lease_ms', 'checked'}
local state = redis.call('HMGET', KEYS[1], unpack(fields))
if state[1] and tonumber(state[1]) > tonumber(ARGV[1]) then
  return {'NEWER', state[1]}
end
local epoch, beat = state[2] or '0', state[5] or '0'
-- Adits of release 0.1.0 hold the lease by this key alone.
local leased = redis.call('GET', KEYS[2])
if leased and string.sub(leased, -5) == ';beat' then
  leased = false
end
local holder = leased or (state[6] == '1' and state[3])
local is_own = holder and string.sub(holder, 1, #ARGV[2]) == ARGV[2]
local is_over = epoch == ARGV[5] and beat == ARGV[6]
if holder and not is_own and not is_over then
  local left = leased and tostring(redis.call('PTTL', KEYS[2])) or ''
  return {'HELD', holder, not leased and state[7] or '', epoch, beat, left}
end
-- Only the standby that is named may have all that was acknowledged.
local standby = redis.call('HGET', KEYS[12], '#0000000000000000') or ''
if standby ~= '' and standby ~= ARGV[7] and ARGV[7] ~= '*' then
  return {'NAMED', standby}
end
local number = tonumber(epoch)
if state[3] ~= ARGV[3] then
  number = number + 1
end
local text = string.format('%d', number)
redis.call('HSET', KEYS[1], 'format', '1', 'epoch', text, 'holder', ARGV[3], 'held', '1', 'lease_ms', ARGV[4])
redis.call('HINCRBY', KEYS[1], 'beat', 1)
redis.call('SET', KEYS[2], ARGV[3] .. ';beat', 'PX', ARGV[4])
redis.call('DEL', KEYS[3])
-- Adits of release 0.1.0 write no checksums.
local last = state[4] or '0-0'
local checked = '1'
if (state[8] or '0-0') ~= last then
  redis.call('UNLINK', KEYS[13])
  checked = '0'
end
return {'TAKEN', text, last, epoch, state[3] or '', checked, standby}
