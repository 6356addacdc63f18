-- increment.lua adds to a score, and undoes it where the sum is infinite.
--
-- KEYS[1]  the board
-- ARGV[1]  member
-- ARGV[2]  what to add
-- ARGV[3]  ZREVRANK or ZRANK
--
-- Returns {rank from 0, score, members, 1 if the score is another than before}, or the error SCORE if nothing was changed.

local old = redis.call('ZSCORE', KEYS[1], ARGV[1])
local new = redis.call('ZINCRBY', KEYS[1], ARGV[2], ARGV[1])
if string.find(string.lower(new), 'inf') then
  if old then
    redis.call('ZADD', KEYS[1], old, ARGV[1])
  else
    redis.call('ZREM', KEYS[1], ARGV[1])
  end
  return redis.error_reply('SCORE the sum is infinite')
end
return {redis.call(ARGV[3], KEYS[1], ARGV[1]), new, redis.call('ZCARD', KEYS[1]), old ~= new and 1 or 0}
