-- Ends the lease of its holder.
-- KEYS: as of the script that takes the lease. ARGV: holder.
if redis.call('GET', KEYS[2]) == ARGV[1] then
  redis.call('DEL', KEYS[2], KEYS[3])
end
return {'RELEASED'}
