-- share.lua lets a reader in beside other readers, or takes one of a number of permits. Each lapses by itself.
--
-- KEYS[1]  the lock: a sorted set of members by the time at which they lapse, in milliseconds
-- KEYS[2]  its queue, as in wait.lua, in which a writer may wait
-- ARGV[1]  member: "r" or "p<permits>:", and the token
-- ARGV[2]  TTL, milliseconds
-- ARGV[3]  kind: what a member begins with
-- ARGV[4]  how many there may be at a time; 0 sets no bound
--
-- Returns {} when the member is in, also when an earlier run let it in; {owner, milliseconds left, negative where none are
-- counted} when it is not, the owner "" when readers or permits have the lock or a writer waits; {kind} when there are permits of another number.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local from = time[1] * 1000 + math.ceil(time[2] / 1000) -- so that a member has its whole time, of which it may count on most
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'string' then return {owner, redis.call('PTTL', KEYS[1])} end
if owner then -- WRONGTYPE
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0)[1]
  if not first or not (string.find(first, '^r%x') or string.find(first, '^p%d+:%x')) then return owner end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if first[1] then
    local kind = string.match(first[1], '^p%d+:') or 'r'
    if kind ~= ARGV[3] then
      if ARGV[4] ~= '0' and kind ~= 'r' then return {kind} end
      return {'', redis.call('PTTL', KEYS[1])}
    end
    if ARGV[4] ~= '0' and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
      return {'', tonumber(first[2]) - from}
    end
  end
  -- Times of life in the queue are half milliseconds, and arrivals are above 10^14.
  if redis.call('ZCOUNT', KEYS[2], '(' .. string.format('%.0f', now * 2), '100000000000000') > 0 then
    return {'', redis.call('PTTL', KEYS[1])}
  end
end
redis.call('ZADD', KEYS[1], 'GT', from + ARGV[2], ARGV[1]) -- a repetition may come late, and must not shorten
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {}
