-- Asks the holder for the lease, whoever it is.
-- KEYS: handover. ARGV: who asks, milliseconds for which it does.
-- A command that needs no memory comes first: after it the server takes the other one also without memory.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'ASKED'}
