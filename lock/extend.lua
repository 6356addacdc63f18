-- extend.lua makes what is left of a lease longer, and not shorter unless that is asked for, and never revives one.
--
-- KEYS[1]  the lock
-- ARGV[1]  token, or member of the sorted set of readers or permits
-- ARGV[2]  milliseconds that shall at least be left; 0 asks alone
-- ARGV[3]  given: exactly so many shall be left
--
-- Returns the milliseconds left, -1 where the lock has no expiry; -2 when the token does not have the lock.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then -- WRONGTYPE: readers or permits, or no lock
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local lapses = redis.pcall('ZSCORE', KEYS[1], ARGV[1])
  if type(lapses) == 'table' then return owner end
  if not lapses or tonumber(lapses) <= now then return -2 end
  if ARGV[3] or tonumber(lapses) < now + ARGV[2] then
    lapses = now + ARGV[2]
    redis.call('ZADD', KEYS[1], lapses, ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') -- of the others, none is to lapse sooner
  end
  return tonumber(lapses) - now
end
if owner ~= ARGV[1] then return -2 end
if ARGV[3] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
end
return redis.call('PTTL', KEYS[1])
