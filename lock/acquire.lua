-- acquire.lua takes the lock for a token, or says who has it. Readers and permits of the name lie in a sorted set, by the
-- time at which they lapse, in milliseconds.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
-- ARGV[1]  token
-- ARGV[2]  TTL, milliseconds
-- ARGV[3]  how long the fence outlives this, milliseconds
--
-- Returns {fence} when the token has the lock, also when an earlier run took it; {owner, milliseconds left or -1} when
-- another has it, the owner "" when readers or permits have.

local owner = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if type(owner) == 'table' then -- WRONGTYPE
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0)[1]
  if not first or not (string.find(first, '^r%x') or string.find(first, '^p%d+:%x')) then return owner end
  local now = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000 + math.floor(now[2] / 1000))
  owner = redis.call('EXISTS', KEYS[1]) == 1 and ''
  if not owner then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
end
if owner then
  if owner ~= ARGV[1] then return {owner, redis.call('PTTL', KEYS[1])} end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  local fence = redis.call('GET', KEYS[2])
  if fence then return {fence} end
end

local now = redis.call('TIME')
local fence = now[1] .. string.sub('000000' .. now[2], -6) -- strings, so exact
local last = redis.call('SET', KEYS[2], fence, 'GET', 'PX', ARGV[3])
if last and tonumber(last) >= tonumber(fence) then
  fence = string.format('%.0f', tonumber(last) + 1)
  redis.call('SET', KEYS[2], fence, 'PX', ARGV[3])
end
return {fence}
