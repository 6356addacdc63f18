-- refund.lua takes n off a counter, which stays what it is: where there is none, none is made.
--
-- KEYS[1]  the counter
-- ARGV[1]  n
--
-- Returns how many it took off.
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if not used then return redis.error_reply('ERR value is not a counter') end
local off = math.min(used, tonumber(ARGV[1]))
if off <= 0 then return 0 end
redis.call('DECRBY', KEYS[1], off)
return off
