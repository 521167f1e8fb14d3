-- Looks for records that are missing: returns how many, where the next part begins, and the names of those in this part.
-- KEYS: as of the script that takes the lease. ARGV: where the part begins, how many records.
local state = redis.call('HMGET', KEYS[1], 'last', 'checked', 'records')
if (state[1] or '0-0') ~= (state[2] or '0-0') then
  return {'0', '0'}
end
local known, count = tonumber(state[3] or '0'), 0
for i = 5, 12 do
  count = count + redis.call('HLEN', KEYS[i])
end
if count == known and redis.call('HLEN', KEYS[13]) == known then
  return {'0', '0'}
end
local part = redis.call('HSCAN', KEYS[13], ARGV[1], 'COUNT', ARGV[2])
local answer = {tostring(math.max(known - count, 0)), part[1]}
for i = 1, #part[2], 2 do
  local name = part[2][i]
  if redis.call('HEXISTS', KEYS[4 + tonumber(string.sub(name, 1, 1))], string.sub(name, 2)) == 0 then
    answer[#answer + 1] = name
  end
end
return answer
