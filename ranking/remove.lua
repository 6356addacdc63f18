-- remove.lua takes members off boards, or all but the best off one.
--
-- KEYS[1]...  of each board the sorted set, and its companion of distinct scores, or the sorted set again
-- ARGV[1]  desc or asc
-- ARGV[2]  how many of the best stay, or empty
-- ARGV[3]  how many go at most, where the best stay
-- ARGV[4]...  members
--
-- Returns how many were removed.

local desc, removed = ARGV[1] == 'desc', 0
for k = 1, #KEYS, 2 do
  local key, other = KEYS[k], KEYS[k + 1]
  if ARGV[2] ~= '' then
    local over = math.min(redis.call('ZCARD', key) - ARGV[2], ARGV[3])
    if over > 0 then
      removed = removed + redis.call('ZREMRANGEBYRANK', key, desc and 0 or -over, desc and over - 1 or -1)
      if other ~= key then
        local worst = redis.call(desc and 'ZRANGE' or 'ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
        redis.call('ZREMRANGEBYSCORE', other, desc and '-inf' or '(' .. worst, desc and '(' .. worst or '+inf')
      end
    end
  end
  for i = 4, #ARGV do
    local old = redis.call('ZSCORE', key, ARGV[i])
    if old then
      removed = removed + redis.call('ZREM', key, ARGV[i])
      if other ~= key and redis.call('ZCOUNT', key, old, old) == 0 then redis.call('ZREMRANGEBYSCORE', other, old, old) end
    end
  end
end
return removed
