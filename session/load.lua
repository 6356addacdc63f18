-- load.lua reads a session for the bearer of its secret, or of the one before it while that is still good, and renews its
-- idle time within its lifetime.
--
-- KEYS[1]    the session
-- ARGV[1]    idle timeout, milliseconds
-- ARGV[2]    the hash of the secret
--
-- Returns name and value of each field, then the milliseconds that the session has left; nothing when there is none, or
-- the secret opens it not.
local fields = redis.call('HGETALL', KEYS[1])
local own = {}
for i = 1, #fields, 2 do
  if string.byte(fields[i]) == 95 then own[fields[i]] = fields[i + 1] end -- begins with _
end
if not own._v then return {} end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
if own._t ~= ARGV[2] and (own._p ~= ARGV[2] or now() >= (tonumber(own._g or 0) or 0)) then return {} end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local left = ARGV[1]
if own._x and redis.call('PEXPIREAT', KEYS[1], own._x, 'LT') == 1 then
  left = redis.call('PTTL', KEYS[1])
  if left < 0 then return {} end
  own._s = string.format('%.0f', now())
  redis.call('HSET', KEYS[1], '_s', own._s)
  fields[#fields + 1] = '_s' -- the last of a name counts
  fields[#fields + 1] = own._s
elseif own._s then
  redis.call('HDEL', KEYS[1], '_s')
  fields[#fields + 1] = '_s'
  fields[#fields + 1] = ''
end
fields[#fields + 1] = left
return fields
