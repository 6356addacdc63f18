-- reset.lua deletes a key, unless it holds something of another type: that is somebody else's.
--
-- KEYS[1]  the key
-- ARGV[1]  the type that it may be of, as TYPE says it
--
-- Returns how many keys it deleted.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= ARGV[1] and kind ~= 'none' then
  return redis.error_reply('WRONGTYPE value is a ' .. kind .. ', not a ' .. ARGV[1])
end
return redis.call('DEL', KEYS[1])
