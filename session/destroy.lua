-- destroy.lua ends a session, and leaves alone what is none.
--
-- KEYS[1]    the session
-- ARGV[1]    the field that names its user, or '' where there is no index
-- ARGV[2]    the user whose it must be, or '' for anybody's
--
-- Returns 1 when this call ended it, 0 when there was none, -1 when it is another user's; and then the user.
local own = redis.call('HMGET', KEYS[1], '_v', ARGV[1])
if not own[1] then return {0, ''} end
local user = own[2] or ''
if ARGV[2] ~= '' and user ~= ARGV[2] then return {-1, user} end
return {redis.call('DEL', KEYS[1]), user}
