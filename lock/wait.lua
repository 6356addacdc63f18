-- wait.lua takes the lock for a token, or puts its waiter into the queue, from which a release grants to the first that is
-- alive.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
-- KEYS[3]  its queue, a sorted set in which each waiter stands twice: by its arrival, in microseconds; and after a "~" by the
--          time until which it counts as alive, in half milliseconds, even where nobody listens for it at this server
-- ARGV[1]  token
-- ARGV[2]  TTL, milliseconds
-- ARGV[3]  how long the fence outlives this, milliseconds
-- ARGV[4]  the waiter: token, length of a grant in milliseconds (5 digits), process
-- ARGV[5]  how long the waiter counts as alive, milliseconds
-- ARGV[6]  channel on which it listens
--
-- Returns {fence} when the token has the lock, also when an earlier run took it; {owner, milliseconds left or -1, fence that
-- a grant made from now on exceeds} when another has it, the owner "" when readers or permits have.

local owner = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
local now = redis.call('TIME')
if type(owner) == 'table' then -- WRONGTYPE: readers or permits, as in acquire.lua
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0)[1]
  if not first or not (string.find(first, '^r%x') or string.find(first, '^p%d+:%x')) then return owner end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000 + math.floor(now[2] / 1000))
  owner = redis.call('EXISTS', KEYS[1]) == 1 and ''
  if not owner then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
end
local micros = now[1] .. string.sub('000000' .. now[2], -6) -- strings, so exact

if owner and owner ~= ARGV[1] then
  local listening = redis.pcall('PUBSUB', 'NUMSUB', ARGV[6])[2]
  local alive = (now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[5]) * 2
  if listening and tonumber(listening) > 0 then alive = alive + 1 end
  redis.call('ZADD', KEYS[3], 'NX', micros, ARGV[4])
  redis.call('ZADD', KEYS[3], alive, '~' .. ARGV[4])
  -- Never shorter: others may count as alive for longer. GT alone gives a new queue no expiry.
  if redis.call('PEXPIRE', KEYS[3], ARGV[5] * 2, 'GT') == 0 then redis.call('PEXPIRE', KEYS[3], ARGV[5] * 2, 'NX') end
  local fence = redis.pcall('GET', KEYS[2])
  if type(fence) ~= 'string' then fence = string.format('%.0f', micros - 1) end
  return {owner, redis.call('PTTL', KEYS[1]), fence}
end

if owner then
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT') -- a repetition may come late: it must not shorten what was extended since
  local fence = redis.pcall('GET', KEYS[2])
  if type(fence) == 'string' then return {fence} end
else
  -- pcall: where the queue's key is somebody else's, the lock would be taken by now, and have no fence of its own.
  redis.pcall('ZREM', KEYS[3], ARGV[4], '~' .. ARGV[4])
end
local last = redis.pcall('SET', KEYS[2], micros, 'GET', 'PX', ARGV[3])
if type(last) == 'table' then -- the fence's key is somebody else's
  redis.call('DEL', KEYS[1])
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no fence')
end
if last and (tonumber(last) or 0) >= tonumber(micros) then
  micros = string.format('%.0f', tonumber(last) + 1)
  redis.call('SET', KEYS[2], micros, 'PX', ARGV[3])
end
return {micros}
