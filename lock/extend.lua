-- extend.lua makes what is left of a lease longer, and not shorter unless that is asked for, and never revives one.
--
-- KEYS[1]  the lock
-- ARGV[1]  token
-- ARGV[2]  milliseconds that shall at least be left; 0 asks alone
-- ARGV[3]  given: exactly so many shall be left
--
-- Returns the milliseconds left, -1 where the lock has no expiry; -2 when the token does not have the lock.

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return owner end -- WRONGTYPE
if owner ~= ARGV[1] then return -2 end
if ARGV[3] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
elseif ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
end
return redis.call('PTTL', KEYS[1])
