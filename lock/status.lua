-- status.lua looks at a lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  its fence
--
-- Returns {milliseconds left, -1 where it has no expiry, -2 where nobody has it; owner; fence, "0" where none is known}.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return owner end -- WRONGTYPE
return {redis.call('PTTL', KEYS[1]), owner or '', redis.call('GET', KEYS[2]) or '0'}
