-- status.lua looks at a lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
--
-- Returns {milliseconds left, -1 where it has no expiry, -2 where nobody has it; owner, "" for readers and permits; fence, "0"
-- where none is known; how many readers or permits there are}.

local owner = redis.pcall('GET', KEYS[1])
local fence = redis.call('GET', KEYS[2]) or '0'
if type(owner) ~= 'table' then return {redis.call('PTTL', KEYS[1]), owner or '', fence, 0} end

local time = redis.call('TIME') -- WRONGTYPE: readers or permits, or no lock
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.pcall('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if not last[1] or not (string.find(last[1], '^r%x') or string.find(last[1], '^p%d+:%x')) then return owner end
if tonumber(last[2]) <= now then return {-2, '', fence, 0} end
local left = tonumber(last[2]) - time[1] * 1000 - math.ceil(time[2] / 1000) -- as share.lua counts it
return {left, '', fence, redis.call('ZCOUNT', KEYS[1], '(' .. string.format('%.0f', now), '+inf')}
