-- Returns a part of the records of a kind: where the next part begins, fields and values in turn, and the checksums, or none if not all
-- records have one.
-- KEYS: as of the script that takes the lease. ARGV: octet of the kind, where the part begins, how many records.
local state = redis.call('HMGET', KEYS[1], 'last', 'checked')
local part = redis.call('HSCAN', KEYS[4 + tonumber(ARGV[1])], ARGV[2], 'COUNT', ARGV[3])
local names = {}
for i = 1, #part[2], 2 do
  names[#names + 1] = ARGV[1] .. part[2][i]
end
local checksums = {}
if #names > 0 and (state[1] or '0-0') == (state[2] or '0-0') then
  checksums = redis.call('HMGET', KEYS[13], unpack(names))
end
return {part[1], part[2], checksums}
