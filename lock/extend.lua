-- extend.lua makes what is left of a lease longer, and not shorter unless that is asked for, and never revives one.
--
-- KEYS[1]  the lock
-- ARGV[1]  token, or member of the sorted set of readers or permits
-- ARGV[2]  milliseconds that shall at least be left; 0 asks alone
-- ARGV[3]  "exactly": so many shall be left, and no more; "anew": the expiry is written though it stays as it is
--
-- Returns the milliseconds left, -1 where the lock has no expiry; -2 when the token does not have the lock.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then -- WRONGTYPE: readers or permits, or no lock
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local from = time[1] * 1000 + math.ceil(time[2] / 1000) -- as in share.lua
  local lapses = redis.pcall('ZSCORE', KEYS[1], ARGV[1])
  if type(lapses) == 'table' then return owner end
  if not lapses or tonumber(lapses) <= now then return -2 end
  if ARGV[3] == 'exactly' or tonumber(lapses) < from + ARGV[2] then
    lapses = from + ARGV[2]
    redis.call('ZADD', KEYS[1], lapses, ARGV[1])
  end
  if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') end -- of the others, none is to lapse sooner
  if ARGV[3] == 'anew' then redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2])) end
  return tonumber(lapses) - from
end
if owner ~= ARGV[1] then return -2 end
if ARGV[3] == 'exactly' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif ARGV[3] == 'anew' then
  redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[2]))
elseif ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
end
local left = redis.call('PTTL', KEYS[1])
if left == -1 and ARGV[2] ~= '0' then -- a foreign hand took the expiry away: without it a crash would block for ever
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return left
