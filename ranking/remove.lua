-- remove.lua takes members off a board whose companion has each score once, or all but the best.
--
-- KEYS[1]  the board
-- KEYS[2]  the companion
-- ARGV[1]  desc or asc
-- ARGV[2]  how many of the best stay, or empty
-- ARGV[3]...  members
--
-- Returns how many were removed.

local desc, removed = ARGV[1] == 'desc', 0
if ARGV[2] ~= '' then
  local over = redis.call('ZCARD', KEYS[1]) - ARGV[2]
  if over > 0 then
    removed = redis.call('ZREMRANGEBYRANK', KEYS[1], desc and 0 or ARGV[2], desc and over - 1 or -1)
    local worst = redis.call(desc and 'ZRANGE' or 'ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
    redis.call('ZREMRANGEBYSCORE', KEYS[2], desc and '-inf' or '(' .. worst, desc and '(' .. worst or '+inf')
  end
end
for i = 3, #ARGV do
  local old = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if old then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
    if redis.call('ZCOUNT', KEYS[1], old, old) == 0 then redis.call('ZREMRANGEBYSCORE', KEYS[2], old, old) end
  end
end
return removed
