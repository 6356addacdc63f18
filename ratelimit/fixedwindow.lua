-- fixedwindow.lua counts n in a window, all or nothing, if that is the window of the server's time.
--
-- A key lives until its window ends, so only a call that finds no key can be in another window than it thinks: that one
-- asks for the time.
--
-- KEYS[1]  the window's counter
-- ARGV[1]  n; 0 looks whether one more would be counted, and changes nothing
-- ARGV[2]  the limit
-- ARGV[3]  when the window begins, in milliseconds; 0 if it is known to have begun
-- ARGV[4]  when it ends, in milliseconds
-- ARGV[5]  0: answer in short
--
-- Returns {verdict, used, now}. The verdict is 1: counted; 0: n would be too much; -1: it is not this window's time. now is
-- in microseconds. In short: used where n is counted, else -now.
local n, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local used
if n > 0 then
  used = redis.call('INCRBY', KEYS[1], ARGV[1])
  if used > n and used <= limit and ARGV[5] == '0' then return used end
else
  used = tonumber(redis.call('GET', KEYS[1]) or '0')
end
if not used or used < n then return redis.error_reply('ERR value is not a counter') end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local verdict = 1
if now >= ARGV[4] * 1000 or used == n and now < ARGV[3] * 1000 then -- Redis shows a key in its last millisecond still
  verdict = -1
  if n > 0 and used == n then
    redis.call('DEL', KEYS[1])
  elseif n > 0 then
    redis.call('DECRBY', KEYS[1], ARGV[1])
  end
elseif used + (n == 0 and 1 or 0) > limit then
  verdict = 0
  if n > 0 then -- as it was, and with its end, in case that a foreign hand took that
    used = used - n
    redis.call('SET', KEYS[1], used, 'PXAT', ARGV[4])
  end
elseif n > 0 and used == n then
  redis.call('PEXPIREAT', KEYS[1], ARGV[4])
end
if ARGV[5] ~= '0' then return {verdict, used, now} end
if verdict == 1 then return used end
return -now
