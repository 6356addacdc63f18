-- tokenbucket.lua takes n tokens from a bucket, all or nothing (GCRA). Of the bucket only the time is kept at which it will
-- be full again; what is missing is a debt of time.
--
-- A token costs a/b microseconds, so debts are kept in units of 1/b of one.
--
-- KEYS[1]  when it is full: microseconds, and behind a space the units beyond them, if any
-- ARGV[1]  n tokens; 0 looks, and changes nothing; less gives back
-- ARGV[2]  a
-- ARGV[3]  b
-- ARGV[4]  the debt of an empty bucket
--
-- Returns {1 where the tokens are taken, the debt}.
local n, a, b, empty = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local full = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local debt, write = 0, false
if full then
  local us, units = tonumber(full), 0
  if not us then
    us, units = string.match(full, '^(%d+) (%d+)$')
    if not us then return redis.error_reply('ERR value is not a token bucket') end
    us, units = tonumber(us), math.min(tonumber(units), b - 1)
  end
  debt = math.max((us - now) * b + units, 0)
  if debt > empty then -- the clock was set back, or the limit lowered
    debt, write = empty, true
  end
end
local fits = n > 0 and debt + n * a <= empty
if fits or n < 0 then debt = math.max(debt + n * a, 0) end
if debt == 0 and n < 0 then
  redis.call('DEL', KEYS[1])
elseif fits or n < 0 or write and n > 0 then
  local units = debt % b
  local us = now + (debt - units) / b
  if units > 0 then us = string.format('%.0f %.0f', us, units) end
  redis.call('SET', KEYS[1], us, 'PX', math.ceil(debt / b / 1000))
end
return {fits and 1 or 0, debt}
