-- multi.lua counts n in every rule of an id, or in none of them. The rules are those of the scripts that have one.
--
-- KEYS[1]     a hash with a field for each rule, by its name. A bucket's holds when it is full: microseconds, and behind a
--             space the units beyond them, if any. A counter's holds the beginning of its window in ms, its count, and the
--             count of the window before.
-- ARGV[1]     n; 0 looks, and changes nothing; less gives back
-- ARGV[2]     when that was taken which is given back, in milliseconds
-- ARGV[3]...  five for each rule: its name, and "b", a, b, the debt of an empty bucket; or "c", which slides, or "f", which
--             does not, the limit, the window in milliseconds, 0
--
-- Returns {1 where n is counted, now in microseconds}, and two for each rule: a bucket's debt and 0, or the counts of the
-- window and of the one before.
local n = tonumber(ARGV[1])
local names = {}
for i = 3, #ARGV, 5 do names[#names + 1] = ARGV[i] end
local states = redis.call('HMGET', KEYS[1], unpack(names))
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)
local fits, ends = n > 0, ms
local rules, changed = {}, {}

for i = 1, #names do
  local kind, x, y, z = ARGV[5 * i - 1], tonumber(ARGV[5 * i]), tonumber(ARGV[5 * i + 1]), tonumber(ARGV[5 * i + 2])
  local state = states[i]
  if kind == 'b' then
    local debt = 0
    if state then
      local us, units = string.match(state, '^(%d+) ?(%d*)$')
      if not us then return redis.error_reply('ERR value of ' .. names[i] .. ' is not a token bucket') end
      units = math.min(tonumber(units) or 0, y - 1)
      debt = math.max((tonumber(us) - now) * y + units, 0)
      if debt > z then
        debt, changed[i] = z, true
      end
      if n < 0 then
        debt, changed[i] = math.max(debt + n * x, 0), true
      end
    end
    if n > 0 and debt + n * x > z then fits = false end
    rules[i] = {debt, 0}
  else
    local start = ms - ms % y
    local cur, last = 0, 0
    if state then
      local s, c, l = string.match(state, '^(%d+) (%d+) (%d+)$')
      if not s then return redis.error_reply('ERR value of ' .. names[i] .. ' is not a counter') end
      s, c, l = tonumber(s), tonumber(c), tonumber(l)
      if n < 0 then
        local at = ARGV[2] - ARGV[2] % y
        if s == at then c = math.max(c + n, 0) elseif s == at + y then l = math.max(l + n, 0) end
        changed[i] = true
      end
      if s >= start then
        cur, last, changed[i] = c, l, changed[i] or s > start
      elseif s >= start - y then
        last = c
      end
    end
    if kind == 'f' then last = 0 end
    if n > 0 and cur + math.floor(last * (start + y - ms) / y) + n > x then fits = false end
    rules[i] = {cur, last, start}
  end
end

local reply, fields = {fits and 1 or 0, now}, {}
for i = 1, #names do
  local kind, x, y, rule = ARGV[5 * i - 1], tonumber(ARGV[5 * i]), tonumber(ARGV[5 * i + 1]), rules[i]
  local value
  if kind == 'b' then
    if fits then rule[1] = rule[1] + n * x end
    local units = rule[1] % y
    value = string.format('%.0f', now + (rule[1] - units) / y)
    if units > 0 then value = value .. string.format(' %.0f', units) end
    ends = math.max(ends, ms + 1 + math.ceil(rule[1] / y / 1000))
  else
    if fits then rule[1] = rule[1] + n end
    value = string.format('%.0f %.0f %.0f', rule[3], rule[1], rule[2])
    ends = math.max(ends, rule[3] + (kind == 'c' and 2 or 1) * y)
  end
  if fits or n ~= 0 and changed[i] then
    fields[#fields + 1] = names[i]
    fields[#fields + 1] = value
  end
  reply[#reply + 1] = rule[1]
  reply[#reply + 1] = rule[2]
end
if #fields > 0 then
  redis.call('HSET', KEYS[1], unpack(fields))
  -- never sooner: there may be fields of rules that this call has not
  if redis.call('PEXPIREAT', KEYS[1], ends, 'NX') == 0 then redis.call('PEXPIREAT', KEYS[1], ends, 'GT') end
end
return reply
