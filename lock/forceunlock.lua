-- forceunlock.lua takes the lock from whoever has it.
--
-- KEYS[1]  the lock
--
-- Returns 1 when somebody had it, else 0.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return owner end -- WRONGTYPE
return redis.call('DEL', KEYS[1])
