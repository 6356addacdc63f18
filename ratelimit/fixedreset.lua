-- fixedreset.lua forgets a window's count, if that is the window of the server's time.
--
-- KEYS[1]  the window's counter
-- ARGV[1]  when the window begins, in milliseconds; 0 if it is known to have begun
-- ARGV[2]  when it ends, in milliseconds
--
-- Returns 0 when forgotten, else the time in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if now < ARGV[1] * 1000 or now >= ARGV[2] * 1000 then return now end
redis.call('DEL', KEYS[1])
return 0
