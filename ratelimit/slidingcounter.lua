-- slidingcounter.lua counts n, all or nothing, by two counters: this window's, and as much of the last window's as a window
-- that ends now still covers.
--
-- KEYS[1]  the state: "<beginning of the window, ms> <its count> <the count of the window before>"
-- ARGV[1]  n; 0 looks, and changes nothing; less gives back
-- ARGV[2]  the limit
-- ARGV[3]  the window, in milliseconds
-- ARGV[4]  when that was taken which is given back, in milliseconds
--
-- Returns {1 where n is counted, this window's count, the last one's, now in microseconds}.
local n, limit, win = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local start = ms - ms % win
local state = redis.call('GET', KEYS[1])
local cur, last, stepped = 0, 0, false
if state then
  local s, c, l = string.match(state, '^(%d+) (%d+) (%d+)$')
  if not s then return redis.error_reply('ERR value is not a sliding counter') end
  s, c, l = tonumber(s), tonumber(c), tonumber(l)
  if n < 0 then
    local at = ARGV[4] - ARGV[4] % win
    if s == at then c = math.max(c + n, 0) elseif s == at + win then l = math.max(l + n, 0) end
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', s, c, l), 'KEEPTTL')
  end
  if s >= start then -- of a later window: the clock was set back, and what was counted counts now
    cur, last, stepped = c, l, s > start
  elseif s >= start - win then
    last = c
  end
end
local weight = math.floor(last * (start + win - ms) / win)
local fits = n > 0 and cur + weight + n <= limit
if fits then cur = cur + n end
if fits or n > 0 and stepped then
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', start, cur, last), 'PXAT', start + 2 * win)
end
return {fits and 1 or 0, cur, last, t[1] * 1000000 + t[2]}
