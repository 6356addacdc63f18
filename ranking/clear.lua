-- clear.lua removes a board and everything beside it.
--
-- KEYS[1]  the board
-- KEYS[2]...  its companions
--
-- Returns how many keys there were.

redis.call('ZCARD', KEYS[1]) -- a key of another type is not ours to remove
return redis.call('UNLINK', unpack(KEYS))
