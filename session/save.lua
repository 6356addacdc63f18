-- save.lua renews a session's idle time, within its lifetime, and writes fields of it. It makes no key: what has ended
-- stays so.
--
-- KEYS[1]    the session
-- ARGV[1]    idle timeout, milliseconds
-- ARGV[2]    the version that must be there, or '' for any; this call's own is good too, it is then a repetition
-- ARGV[3]    this call's version, or '' where it writes no field
-- ARGV[4]    how many fields to delete
-- ARGV[5]... the names of these, then name and value of each field to set
--
-- Returns the milliseconds that the session has left, -1 when there is none, -2 when it has another version.
local own = redis.call('HMGET', KEYS[1], '_v', '_x', '_s')
if not own[1] then return -1 end
if ARGV[2] ~= '' and own[1] ~= ARGV[2] and own[1] ~= ARGV[3] then return -2 end
local set = 5 + ARGV[4]
if set > 5 then redis.call('HDEL', KEYS[1], unpack(ARGV, 5, set - 1)) end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], '_v', ARGV[3], unpack(ARGV, set)) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if own[2] and redis.call('PEXPIREAT', KEYS[1], own[2], 'LT') == 1 then
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 then return -1 end
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], '_s', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
  return left
end
if own[3] then redis.call('HDEL', KEYS[1], '_s') end
return tonumber(ARGV[1])
