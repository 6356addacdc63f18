-- rows.lua reads neighbouring rows of a board, best first, with what it takes to rank them.
--
-- KEYS[1]  the board
-- KEYS[2]  its companion, where Ties has one
-- ARGV[1]  desc or asc
-- ARGV[2]  ties: ordinal, competition, dense or earliest
-- ARGV[3]  the packing that is recorded with the board, of earliest
-- ARGV[4]  which rows: range, around, score, after or beside
-- ARGV[5]  range: first position from 0; around: the member; score: the better bound; after and beside: a member that was a
--          row, or is one of another shard
-- ARGV[6]  range: last position; around: how many above it; score: the worse bound; after and beside: the score it had
-- ARGV[7]  around: how many below it; score and after: how many at most; beside: how many before and after it
--
-- Returns {members on the board, position from 0 and rank from 1 of the first row, then member and score as stored of each
-- row}. Errors: NOTFOUND, UNSUPPORTED.

local desc, ties, which, beside = ARGV[1] == 'desc', ARGV[2], ARGV[4], KEYS[2] or KEYS[1]
local rankof, range = desc and 'ZREVRANK' or 'ZRANK', desc and 'ZREVRANGE' or 'ZRANGE'
local total = redis.call('ZCARD', KEYS[1])
if total > 0 then
  if ties == 'earliest' and redis.call('GET', beside) ~= ARGV[3] then
    return redis.error_reply('UNSUPPORTED the board was written with another Earliest')
  elseif ties == 'dense' and redis.call('EXISTS', beside) == 0 then
    return redis.error_reply('UNSUPPORTED the board was written with other Ties')
  end
end

-- How many entries of a sorted set have a better score than a bound.
local function better(key, bound)
  return redis.call('ZCOUNT', key, desc and '(' .. bound or '-inf', desc and '+inf' or '(' .. bound)
end

-- Whether a comes before b in bytes, whatever the server's locale is.
local function before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local from, rows
if which == 'range' then
  from, rows = tonumber(ARGV[5]), redis.call(range, KEYS[1], ARGV[5], ARGV[6], 'WITHSCORES')
elseif which == 'around' then
  local at = redis.call(rankof, KEYS[1], ARGV[5])
  if not at then return redis.error_reply('NOTFOUND no such member') end
  local above, below = tonumber(ARGV[6]), tonumber(ARGV[7])
  from = math.max(0, math.min(at - above, total - 1 - above - below))
  rows = redis.call(range, KEYS[1], from, math.min(total - 1, from + above + below), 'WITHSCORES')
elseif which == 'score' then
  from = better(KEYS[1], ARGV[5])
  rows = redis.call(desc and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE', KEYS[1], ARGV[5], ARGV[6], 'WITHSCORES', 'LIMIT', 0, ARGV[7])
else
  local member, score = ARGV[5], ARGV[6]
  if redis.call('ZSCORE', KEYS[1], member) == score then
    from = redis.call(rankof, KEYS[1], member) + 1
  else -- it moved or left: the first row that comes after where it was
    from = better(KEYS[1], score)
    local last = from + redis.call('ZCOUNT', KEYS[1], score, score)
    while from < last do
      local middle = math.floor((from + last) / 2)
      local name = redis.call(range, KEYS[1], middle, middle)[1]
      local comes
      if desc then comes = before(name, member) else comes = before(member, name) end
      if comes then last = middle else from = middle + 1 end
    end
  end
  local to = from + ARGV[7] - 1
  if which == 'beside' then from = math.max(0, from - ARGV[7] - 1) end
  rows = redis.call(range, KEYS[1], from, to, 'WITHSCORES')
end
local rank = from + 1
if rows[2] and (ties == 'competition' or ties == 'dense') then rank = better(beside, rows[2]) + 1 end
local reply = {total, from, rank}
for i = 1, #rows do reply[3 + i] = rows[i] end
return reply
