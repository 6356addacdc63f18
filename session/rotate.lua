-- rotate.lua gives a session a new secret and writes fields of it, for the bearer of the present secret. It renews the
-- idle time within the lifetime, which goes on.
--
-- KEYS[1]    the session
-- ARGV[1]    idle timeout, milliseconds
-- ARGV[2]    the hash of the present secret
-- ARGV[3]    the hash of the new one
-- ARGV[4]    for how many milliseconds the present one stays good
-- ARGV[5]    this call's version
-- ARGV[6]    how many fields to delete
-- ARGV[7]... the names of these, then name and value of each field to set
--
-- Returns the milliseconds that the session has left, -1 when there is none, -2 when its secret is another.
local own = redis.call('HMGET', KEYS[1], '_v', '_t', '_x', '_s')
if not own[1] then return -1 end
if own[2] == ARGV[3] then return redis.call('PTTL', KEYS[1]) end -- a repetition
if own[2] ~= ARGV[2] then return -2 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local set = 7 + ARGV[6]
if set > 7 then redis.call('HDEL', KEYS[1], unpack(ARGV, 7, set - 1)) end
redis.call('HSET', KEYS[1], '_v', ARGV[5], '_t', ARGV[3], unpack(ARGV, set))
if ARGV[4] ~= '0' then
  redis.call('HSET', KEYS[1], '_p', ARGV[2], '_g', string.format('%.0f', now + ARGV[4]))
else
  redis.call('HDEL', KEYS[1], '_p', '_g')
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if own[3] and redis.call('PEXPIREAT', KEYS[1], own[3], 'LT') == 1 then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then return -1 end
  redis.call('HSET', KEYS[1], '_s', string.format('%.0f', now))
  return left
end
if own[4] then redis.call('HDEL', KEYS[1], '_s') end
return tonumber(ARGV[1])
