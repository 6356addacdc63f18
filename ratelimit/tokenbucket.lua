-- tokenbucket.lua takes n tokens from a bucket, all or nothing (GCRA). Of the bucket only the time is kept at which it will
-- be full again; what is missing is a debt of time.
--
-- A token costs a/b microseconds, so debts are kept in units of 1/b of one.
--
-- Time is divided in stretches of ten seconds, the same for all limits. A key lives to the end of the stretch in which the
-- bucket will be full, so a write that stays in the stretch leaves that alone: an INCRBY, which is cheaper than a SET.
--
-- KEYS[1]  when it is full: microseconds, and behind a space the units beyond them, if any
-- ARGV[1]  what n tokens cost: n * a; 0 looks, and changes nothing; less gives back
-- ARGV[2]  b
-- ARGV[3]  the debt of an empty bucket
--
-- Returns the debt, or where no tokens are taken -1 less the debt.
local cost, b, empty = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = redis.call('GET', KEYS[1])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local us, units, debt, cut = 0, 0, 0, false
if full then
  us = tonumber(full)
  if not us then
    us, units = string.match(full, '^(%d+) (%d+)$')
    if not us then return redis.error_reply('ERR value is not a token bucket') end
    us, units = tonumber(us), math.min(tonumber(units), b - 1)
  end
  debt = (us - now) * b + units
  if debt < 0 then
    debt = 0
  elseif not (debt <= empty) then -- the clock was set back, or the limit lowered, or it is a foreign nan
    debt, cut = empty, true
  end
end

local fits = cost > 0 and debt + cost <= empty
if fits then debt = debt + cost elseif cost < 0 then debt = math.max(debt + cost, 0) end
if cost < 0 and debt == 0 then
  redis.call('DEL', KEYS[1])
elseif fits or cost < 0 or cut and cost > 0 then
  local rest = debt % b
  local at = now + (debt - rest) / b
  local stretch = at - at % 10000000
  if fits and units + rest == 0 and us >= stretch and us <= at then
    redis.call('INCRBY', KEYS[1], at - us)
  else
    if rest > 0 then at = string.format('%.0f %.0f', at, rest) end
    redis.call('SET', KEYS[1], at, 'PXAT', stretch / 1000 + 10000)
  end
end
return fits and debt or -1 - debt
