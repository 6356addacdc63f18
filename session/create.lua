-- create.lua makes a session. It is the only script that makes a session's key.
--
-- KEYS[1]    the session
-- ARGV[1]    idle timeout, milliseconds
-- ARGV[2]    lifetime, milliseconds, or 0 for no bound
-- ARGV[3]    the hash of its secret
-- ARGV[4]    its version
-- ARGV[5]... name and value of each field
--
-- Returns the time in milliseconds at which it was made; -1 when the key is somebody else's.
if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local created = string.format('%.0f', now)
if #ARGV > 4 then redis.call('HSET', KEYS[1], unpack(ARGV, 5)) end
redis.call('HSET', KEYS[1], '_v', ARGV[4], '_t', ARGV[3], '_c', created)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if ARGV[2] ~= '0' then
  local ends = string.format('%.0f', now + ARGV[2])
  redis.call('HSET', KEYS[1], '_x', ends)
  if redis.call('PEXPIREAT', KEYS[1], ends, 'LT') == 1 and redis.call('PTTL', KEYS[1]) >= 0 then -- it is not over yet
    redis.call('HSET', KEYS[1], '_s', created)
  end
end
return now
