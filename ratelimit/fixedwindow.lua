-- fixedwindow.lua counts n in a window, all or nothing, if that is the window of the server's time.
--
-- A key lives until its window ends, so only a call that finds no key can be in another window than it thinks: that one
-- asks for the time.
--
-- KEYS[1]  the window's counter
-- ARGV[1]  the limit
-- ARGV[2]  when the window ends, in milliseconds
-- ARGV[3]  how long it is, in milliseconds; as much as ARGV[2] if it is known to have begun
-- ARGV[4]  n; 0 looks whether one more would be counted, and changes nothing; if missing, n is 1 and the answer short
--
-- Returns {verdict, used, now}. The verdict is 1: counted; 0: n would be too much; -1: it is not this window's time. now is
-- in microseconds. In short: used where n is counted, else -now.
local limit, cost = tonumber(ARGV[1]), ARGV[4] or '1'
local n = tonumber(cost)
local used
if n > 0 then
  used = redis.call('INCRBY', KEYS[1], cost)
  if used > n and used <= limit and not ARGV[4] then return used end
else
  local value = redis.call('GET', KEYS[1]) or '0'
  used = tonumber(value == '0' and value or string.match(value, '^[1-9]%d*$')) -- what INCRBY takes
end
if not used or used < n or used - n > 9007199254740992 then -- less than none, or more than any limit: no count
  if n > 0 then redis.call('DECRBY', KEYS[1], cost) end
  return redis.error_reply('ERR value is not a counter')
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local verdict = 1
if now >= ARGV[2] * 1000 or used == n and now < (ARGV[2] - ARGV[3]) * 1000 then
  verdict = -1 -- though there may be a key: Redis shows it in its last millisecond still
  if n > 0 and used == n then
    redis.call('DEL', KEYS[1])
  elseif n > 0 then
    redis.call('DECRBY', KEYS[1], cost)
  end
elseif used + (n == 0 and 1 or 0) > limit then
  verdict = 0
  if n > 0 then -- as it was, and with its end, in case that a foreign hand took that
    used = used < 9007199254740992 and used - n or redis.call('DECRBY', KEYS[1], cost) -- beyond, used is not exact
    redis.call('SET', KEYS[1], used, 'PXAT', ARGV[2])
  end
elseif n > 0 and used == n then
  redis.call('PEXPIREAT', KEYS[1], ARGV[2])
end
if ARGV[4] then return {verdict, used, now} end
if verdict == 1 then return used end
return -now
