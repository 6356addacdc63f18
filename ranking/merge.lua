-- merge.lua makes a board the union of others.
--
-- KEYS[1]  the board
-- KEYS[2]  a place beside it for the union
-- KEYS[3]  its companion of distinct scores
-- KEYS[4]...  the others
-- ARGV[1]  SUM, MIN or MAX
-- ARGV[2]  desc or asc
-- ARGV[3]  ties: ordinal, competition or dense
-- ARGV[4]  the largest magnitude of a score, where scores are integers; else 0
-- ARGV[5]  how many of the best stay; 0 for all
-- ARGV[6]  TTL in ms; 0 for none
-- ARGV[7]  when the board opens, ms
-- ARGV[8]  when it closes and expires, ms; 0 for never
--
-- Returns how many members the board has. Errors: SCORE and CLOSED, and nothing was changed.

local desc, limit, size, ttl = ARGV[2] == 'desc', ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
redis.call('ZCARD', KEYS[1]) -- a key of another type is not ours to replace
if ARGV[8] ~= '0' then
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  if now < tonumber(ARGV[7]) or now >= tonumber(ARGV[8]) then return redis.error_reply('CLOSED the window is not open') end
end
local union = {'ZUNIONSTORE', KEYS[2], #KEYS - 3}
for i = 4, #KEYS do union[i] = KEYS[i] end
union[#union + 1], union[#union + 2] = 'AGGREGATE', ARGV[1]
local total = redis.call(unpack(union))
local low, high = '-inf', '+inf'
if limit ~= '0' then low, high = '(-' .. limit, '(' .. limit end
if redis.call('ZCOUNT', KEYS[2], high, '+inf') + redis.call('ZCOUNT', KEYS[2], '-inf', low) > 0 then
  redis.call('UNLINK', KEYS[2])
  return redis.error_reply('SCORE a sum is out of range')
end
redis.call('UNLINK', KEYS[1], KEYS[3]) -- not DEL, which would free millions of members at once
if total == 0 then
  redis.call('UNLINK', KEYS[2]) -- which not every server does
  return 0
end
redis.call('RENAME', KEYS[2], KEYS[1])
if size > 0 and total > size then
  redis.call('ZREMRANGEBYRANK', KEYS[1], desc and 0 or size, desc and total - size - 1 or -1)
  total = size
end
local last = KEYS[1]
if ARGV[3] == 'dense' then
  last = KEYS[3]
  local score = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  while score do
    redis.call('ZADD', KEYS[3], score, score)
    score = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  end
end
for _, key in ipairs({KEYS[1], last}) do
  if ARGV[8] ~= '0' then redis.call('PEXPIREAT', key, ARGV[8]) elseif ttl > 0 then redis.call('PEXPIRE', key, ttl) end
end
return total
