-- destroy.lua ends a session, and leaves alone what is none.
--
-- KEYS[1]    the session
--
-- Returns 1 when this call ended it, 0 when there was none.
if redis.call('HEXISTS', KEYS[1], '_v') == 0 then return 0 end
return redis.call('DEL', KEYS[1])
