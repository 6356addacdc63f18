-- index.lua enters a session in its user's index, or renews its entry there, and drops the entries that are so old that
-- their sessions have ended.
--
-- KEYS[1]    the index: IDs by the time they were entered, in microseconds
-- ARGV[1]    the session's ID
-- ARGV[2]    for how many milliseconds an entry is kept
--
-- Returns how many entries were dropped.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- A full Redis refuses a script that begins with what may need memory, as a new entry does.
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') end
redis.call('ZADD', KEYS[1], now, ARGV[1])
if redis.call('PEXPIRE', KEYS[1], ARGV[2], 'NX') == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') end
return redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2] * 1000))
