-- fixedreset.lua forgets a window's count, if that is the window of the server's time. A key of another type is somebody
-- else's, and an error.
--
-- KEYS[1]  the window's counter
-- ARGV[1]  when the window ends, in milliseconds
-- ARGV[2]  how long it is, in milliseconds; as much as ARGV[1] if it is known to have begun
--
-- Returns 0 when forgotten, else the time in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if now < (ARGV[1] - ARGV[2]) * 1000 or now >= ARGV[1] * 1000 then return now end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then
  return redis.error_reply('WRONGTYPE value is a ' .. kind .. ', not a string')
end
redis.call('DEL', KEYS[1])
return 0
