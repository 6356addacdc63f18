-- release.lua gives the lock up.
--
-- KEYS[1]  the lock
-- ARGV[1]  token
--
-- Returns 1 when the token had the lock, else 0.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return owner end -- WRONGTYPE
if owner ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
