-- acquire.lua takes the lock for a token, or says who has it.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
-- ARGV[1]  token
-- ARGV[2]  TTL, milliseconds
-- ARGV[3]  how long the fence outlives this, milliseconds
--
-- Returns {fence} when the token has the lock, also when an earlier run took it; {owner, milliseconds left or -1} when
-- another has it.

local owner = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if owner then
  if type(owner) == 'table' then return owner end -- WRONGTYPE
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
