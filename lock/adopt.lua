-- adopt.lua hands the lock from one token to another, so that of two who adopt it one succeeds and the holder before
-- has lost it.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
-- ARGV[1]  token that has the lock
-- ARGV[2]  token that shall have it
-- ARGV[3]  TTL, milliseconds
-- ARGV[4]  how long the fence outlives this, milliseconds
--
-- Returns {fence} when the second token has the lock, also when an earlier run gave it; {} when neither has it.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return owner end -- WRONGTYPE: readers and permits are not adopted
if owner == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3], 'GT') -- a repetition may come late: it must not shorten what was extended since
  local fence = redis.pcall('GET', KEYS[2])
  if type(fence) == 'string' then return {fence} end
elseif owner ~= ARGV[1] then
  return {}
end

local now = redis.call('TIME')
local fence = now[1] .. string.sub('000000' .. now[2], -6) -- strings, so exact
local last = redis.pcall('SET', KEYS[2], fence, 'GET', 'PX', ARGV[4])
if type(last) == 'table' then
  if string.find(last.err, 'WRONGTYPE') then return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no fence') end
  return last -- nothing can be written now
end
if last and (tonumber(last) or 0) >= tonumber(fence) then
  fence = string.format('%.0f', tonumber(last) + 1)
  redis.call('SET', KEYS[2], fence, 'PX', ARGV[4])
end
if owner ~= ARGV[2] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return {fence}
