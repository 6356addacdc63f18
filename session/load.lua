-- load.lua reads a session for the bearer of its secret, or of the one before it while that is still good, and renews its
-- idle time within its lifetime.
--
-- KEYS[1]    the session
-- ARGV[1]    idle timeout, milliseconds
-- ARGV[2]    the hash of the secret
--
-- Returns name and value of each field, then the milliseconds that the session has left; nothing when there is none, or
-- the secret opens it not.
local own = redis.call('HMGET', KEYS[1], '_v', '_t', '_x', '_s', '_p', '_g')
if not own[1] then return {} end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
if own[2] ~= ARGV[2] and (own[5] ~= ARGV[2] or now() >= (tonumber(own[6] or 0) or 0)) then return {} end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local left = tonumber(ARGV[1])
if own[3] and redis.call('PEXPIREAT', KEYS[1], own[3], 'LT') == 1 then
  left = redis.call('PTTL', KEYS[1])
  if left < 0 then return {} end
  redis.call('HSET', KEYS[1], '_s', string.format('%.0f', now()))
elseif own[4] then
  redis.call('HDEL', KEYS[1], '_s')
end
local fields = redis.call('HGETALL', KEYS[1])
fields[#fields + 1] = left
return fields
