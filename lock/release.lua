-- release.lua gives the lock up, or grants it to the first living waiter in the queue.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
-- KEYS[3]  its queue, as in wait.lua
-- ARGV[1]  token, or member of the sorted set of readers or permits; empty: whoever has the lock
-- ARGV[2]  how long the fence outlives this, milliseconds
-- ARGV[3]  a waiter that leaves the queue as well, or empty
--
-- Returns 1 when the token had the lock, 2 when a waiter has it now, 0 when the token did not have it.

if ARGV[3] ~= '' then redis.pcall('ZREM', KEYS[3], ARGV[3], '~' .. ARGV[3]) end
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then -- WRONGTYPE: readers or permits, or no lock
  local first = redis.pcall('ZRANGE', KEYS[1], 0, 0)[1]
  if not first or not (string.find(first, '^r%x') or string.find(first, '^p%d+:%x')) then return owner end
  local now = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000 + math.floor(now[2] / 1000))
  if ARGV[1] ~= '' then
    if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
  end
elseif not owner or owner ~= ARGV[1] and ARGV[1] ~= '' then
  return 0
end
if ARGV[1] == '' then -- by force: who had it is told, where its process listens
  local had = type(owner) == 'string' and owner or table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')
  redis.pcall('PUBLISH', KEYS[3], had)
end
if redis.pcall('EXISTS', KEYS[3]) ~= 1 then
  redis.call('DEL', KEYS[1])
  return 1
end

local now = redis.call('TIME')
local millis = now[1] * 1000 + math.floor(now[2] / 1000)
while true do
  -- Arrivals are above 10^14, and times of life below. pcall: while the slot moves to another server, a queue that this
  -- script has emptied counts as lying there, which is an error.
  local waiter = redis.pcall('ZRANGEBYSCORE', KEYS[3], '100000000000000', '+inf', 'LIMIT', 0, 1)[1]
  if not waiter then break end
  local alive = tonumber(redis.call('ZSCORE', KEYS[3], '~' .. waiter) or 0)
  redis.call('ZREM', KEYS[3], waiter, '~' .. waiter)
  local channel = KEYS[3] .. ':' .. string.sub(waiter, 42)
  -- Where it listened at this server and nobody does now, it is dead; where it listens at another, none counts here. It is
  -- asked before anything is sent: of a slot that moved a message reaches it all the same, and would make a second holder.
  local gone = alive % 2 == 1 and tonumber(redis.pcall('PUBSUB', 'NUMSUB', channel)[2]) == 0
  if alive > millis * 2 and not gone then
    local token = string.sub(waiter, 1, 36)
    local fence = now[1] .. string.sub('000000' .. now[2], -6)
    local last = redis.pcall('SET', KEYS[2], fence, 'GET', 'PX', ARGV[2])
    if type(last) == 'table' then break end -- the fence's key is somebody else's: no grant without a fence
    if last and (tonumber(last) or 0) >= tonumber(fence) then
      fence = string.format('%.0f', tonumber(last) + 1)
      redis.call('SET', KEYS[2], fence, 'PX', ARGV[2])
    end
    redis.call('SET', KEYS[1], token, 'PX', tonumber(string.sub(waiter, 37, 41)))
    if type(redis.pcall('PUBLISH', channel, token .. fence)) == 'number' then return 2 end
  end
end
redis.call('DEL', KEYS[1])
return 1
