-- write.lua writes scores to one board, or one score to the boards of several windows, and answers where its member
-- stands. What would be refused on one board changes nothing on any.
--
-- KEYS[1]...  of each board the sorted set, and its companion where Ties has one; then, with an operation, its two memories
-- ARGV[1]  set, best or add
-- ARGV[2]  desc or asc
-- ARGV[3]  ties: ordinal, competition, dense or earliest
-- ARGV[4]  the largest magnitude of a score, where scores are integers; else 0
-- ARGV[5]  how many of the best stay; 0 for all
-- ARGV[6]  TTL in ms; 0 for none
-- ARGV[7]  the operation's id, of an add that counts once; else empty
-- ARGV[8]  how long it is remembered at least, ms
-- ARGV[9]  how many boards
-- ARGV[10]...  of each board: when it opens and when it closes and expires, ms, 0 for never; then the packing that is recorded
--              with it (since:until:resolution:bits, ms), else empty; then pairs of member and score, or what to add
--
-- Returns for one pair {rank from 1 or nil, score as stored, members, 1 if that is another than before} of each board;
-- for more, or none, how many changed. Errors: SCORE, CLOSED and UNSUPPORTED, and nothing was changed.

local verb, desc, ties = ARGV[1], ARGV[2] == 'desc', ARGV[3]

local limit, size, ttl, op, boards = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[9])
local first = 10 + 3 * boards
local stride = (ties == 'dense' or ties == 'earliest') and 2 or 1
local rankof = desc and 'ZREVRANK' or 'ZRANK'

local now
local function clock()
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return now
end

-- A number from Redis' text; some write big ones with an exponent, which not every tonumber reads exactly.
local function integer(text)
  local whole, part, exponent = string.match(text, '^(-?%d+)%.?(%d*)e%+(%d+)$')
  if whole and exponent - #part >= 0 then text = whole .. part .. string.rep('0', exponent - #part) end
  return tonumber(text)
end

local repeated, memory, period = false, nil, nil
if op ~= '' then
  period = math.floor(clock() / ARGV[8])
  memory = KEYS[#KEYS - period % 2]
  repeated = redis.call('HEXISTS', KEYS[#KEYS], op) == 1 or redis.call('HEXISTS', KEYS[#KEYS - 1], op) == 1
end

-- What can be refused without a look at scores.
local unit, tick = {}, {} -- of each board: what a score is worth beside the time, and the time
for i = 1, boards do
  local key, other = KEYS[1 + (i - 1) * stride], KEYS[i * stride]
  local opens, closes, packing = tonumber(ARGV[7 + 3 * i]), tonumber(ARGV[8 + 3 * i]), ARGV[9 + 3 * i]
  if i > 1 then redis.call('ZCARD', key) end -- a key of another type, which the first write would find too late
  if closes > 0 and not repeated and (clock() < opens or clock() >= closes) then
    return redis.error_reply('CLOSED the window is not open')
  end
  if ties == 'earliest' then
    local since, till, resolution, bits = string.match(packing, '^(-?%d+):(-?%d+):(%d+):(%d+)$')
    if not repeated and (clock() < tonumber(since) or clock() >= tonumber(till)) then
      return redis.error_reply('CLOSED the time is outside of Since to Until')
    end
    unit[i] = 2 ^ tonumber(bits)
    tick[i] = math.floor((clock() - since) / resolution)
    if desc then tick[i] = unit[i] - 1 - tick[i] end
    if redis.call('GET', other) ~= packing and redis.call('ZCARD', key) > 0 then
      return redis.error_reply('UNSUPPORTED the board was written with another Earliest')
    end
  elseif ties == 'dense' and redis.call('ZCARD', key) == 0 then
    redis.call('UNLINK', other) -- of a board that was deleted, or expired in the millisecond before
  elseif ties == 'dense' and redis.call('ZCARD', other) == 0 then
    return redis.error_reply('UNSUPPORTED the board was written with other Ties')
  end
end

-- Sums, and whether each is allowed; if one is not, all are taken back.
local olds, news = {}, {}
if verb == 'add' and not repeated then
  local member, delta = ARGV[first], ARGV[first + 1]
  for i = 1, boards do
    local key = KEYS[1 + (i - 1) * stride]
    local old, allowed = redis.call('ZSCORE', key, member), true
    if ties == 'earliest' then
      local before = old and math.floor(integer(old) / unit[i]) or 0
      local sum, room = before + tonumber(delta), 2 ^ 53 / unit[i]
      allowed = sum >= -room and sum < room and (limit == 0 or math.abs(sum) <= limit)
      news[i] = old
      if allowed and not (old and sum == before) then
        news[i] = string.format('%.0f', sum * unit[i] + tick[i])
        redis.call('ZADD', key, news[i], member)
      end
    else
      news[i] = redis.call('ZINCRBY', key, delta, member)
      if limit > 0 then
        local sum = integer(news[i])
        allowed = sum and math.abs(sum) <= limit and sum == math.floor(sum)
      else
        allowed = string.sub(news[i], -3) ~= 'inf'
      end
    end
    olds[i] = old
    if not allowed then
      for j = 1, i do
        key = KEYS[1 + (j - 1) * stride]
        if olds[j] then redis.call('ZADD', key, olds[j], member) else redis.call('ZREM', key, member) end
      end
      return redis.error_reply('SCORE the sum is out of range')
    end
  end
end

if memory and not repeated then
  if redis.call('PEXPIREAT', memory, string.format('%.0f', clock() + 1), 'GT') == 1 then
    redis.call('UNLINK', memory) -- of the period before the last, which Redis shows in its last millisecond still
  end
  redis.call('HSET', memory, op, '')
  redis.call('PEXPIREAT', memory, string.format('%.0f', (period + 2) * ARGV[8]))
end

local reply = {}
for i = 1, boards do
  local key, other, changed, new = KEYS[1 + (i - 1) * stride], KEYS[i * stride], 0, nil
  if not repeated then
    for p = first, #ARGV, 2 do
      local member, score, old = ARGV[p], ARGV[p + 1], nil
      if verb == 'add' then
        old, new = olds[i], news[i]
        if old ~= new then changed = 1 end
      elseif ties == 'earliest' then
        old = redis.call('ZSCORE', key, member)
        local is, was = tonumber(score), old and math.floor(integer(old) / unit[i])
        local writes = not old or is ~= was
        if old and verb == 'best' then
          if desc then writes = is > was else writes = is < was end
        end
        new = old
        if writes then
          new = string.format('%.0f', is * unit[i] + tick[i])
          redis.call('ZADD', key, new, member)
          changed = changed + 1
        end
      else
        if ties == 'dense' then old = redis.call('ZSCORE', key, member) end
        if verb == 'set' then
          changed = changed + redis.call('ZADD', key, 'CH', score, member)
          new = score
        else
          changed = changed + redis.call('ZADD', key, desc and 'GT' or 'LT', 'CH', score, member)
          new = redis.call('ZSCORE', key, member)
        end
      end
      if ties == 'dense' then -- the companion has each score once
        if old and redis.call('ZCOUNT', key, old, old) == 0 then redis.call('ZREMRANGEBYSCORE', other, old, old) end
        if redis.call('ZCOUNT', other, new, new) == 0 then redis.call('ZADD', other, new, new) end
      end
    end
    if ties == 'earliest' then redis.call('SET', other, ARGV[9 + 3 * i]) end
    if size > 0 then
      local over = redis.call('ZCARD', key) - size
      if over > 0 then
        redis.call('ZREMRANGEBYRANK', key, desc and 0 or size, desc and over - 1 or -1)
        if ties == 'dense' then
          local worst = redis.call(desc and 'ZRANGE' or 'ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
          redis.call('ZREMRANGEBYSCORE', other, desc and '-inf' or '(' .. worst, desc and '(' .. worst or '+inf')
        end
        new = nil -- it may be gone
      end
    end
    local closes = ARGV[8 + 3 * i]
    for k = 1 + (i - 1) * stride, i * stride do
      if closes ~= '0' then redis.call('PEXPIREAT', KEYS[k], closes) elseif ttl > 0 then redis.call('PEXPIRE', KEYS[k], ttl) end
    end
  end
  if #ARGV == first + 1 then
    local member, rank = ARGV[first], false
    local score = new or redis.call('ZSCORE', key, member)
    if not score then
      score = '0'
    elseif ties == 'ordinal' or ties == 'earliest' then
      rank = redis.call(rankof, key, member)
      rank = rank and rank + 1
    else
      rank = redis.call('ZCOUNT', other, desc and '(' .. score or '-inf', desc and '+inf' or '(' .. score) + 1
    end
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = rank, score, redis.call('ZCARD', key), changed
  else
    reply[#reply + 1] = changed
  end
end
return reply
