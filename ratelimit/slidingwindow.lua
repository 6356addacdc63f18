-- slidingwindow.lua adds n entries to a log, all or nothing, of which none is older than the window.
--
-- An entry's score is its time in microseconds. A request's entries are named after its number, so that a repeated request
-- adds nothing.
--
-- KEYS[1]  the log
-- ARGV[1]  n, at most 1000; 0 looks, and changes nothing
-- ARGV[2]  the limit
-- ARGV[3]  the window, in milliseconds
-- ARGV[4]  the request's number: 19 digits, of which the last three are 0
--
-- Returns {entries, microseconds until n fits, microseconds until the log is empty}; n was added if the second is 0.
local n, limit, win = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] * 1000
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local old = 0
if n == 0 then
  old = redis.call('ZCOUNT', KEYS[1], '-inf', now - win)
else
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - win)
end
local used = redis.call('ZCARD', KEYS[1]) - old
local room = limit - used - math.max(n, 1)

if room >= 0 and n > 0 then
  local score = t[1] .. string.sub('000000' .. t[2], -6)
  if n == 1 then
    used = used + redis.call('ZADD', KEYS[1], 'NX', score, ARGV[4])
  else
    local name, pairs = string.sub(ARGV[4], 1, 16), {}
    for i = 0, n - 1 do
      pairs[#pairs + 1] = score
      pairs[#pairs + 1] = name .. string.format('%03d', i)
      if #pairs == 200 or i == n - 1 then
        used = used + redis.call('ZADD', KEYS[1], 'NX', unpack(pairs))
        pairs = {}
      end
    end
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return {used, 0, win}
end
if n > 0 and redis.call('ZSCORE', KEYS[1], ARGV[4]) then return {used, 0, win} end -- the request was sent again
if used == 0 then return {0, 0, 0} end

local newest = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
if newest > now then -- the clock was set back: what lies ahead of it counts from now, so that it ends
  if n > 0 then
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')) do
      redis.call('ZADD', KEYS[1], 'XX', now, entry)
    end
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  newest = now
end
if room >= 0 then return {used, 0, newest + win - now} end
local leaves = old - room - 1 -- when this entry has left, n fits
local first = tonumber(redis.call('ZRANGE', KEYS[1], leaves, leaves, 'WITHSCORES')[2])
return {used, math.min(first, now) + win - now, newest + win - now}
