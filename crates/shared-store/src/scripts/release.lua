-- Ends the lease of its holder.
-- KEYS: as of the script that takes the lease. ARGV: holder.
if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'held')
  redis.call('DEL', KEYS[2], KEYS[3])
end
return {'RELEASED'}
