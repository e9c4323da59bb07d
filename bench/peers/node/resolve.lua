-- The look-up of the Node and nginx + Lua peers: a row {w=worker, s=session, e=epoch} and the lease of its worker,
-- "session url", in one hash slot. Answers {3, url, epoch, worker} when the lease is of the row's session.
local row = redis.call('HMGET', KEYS[1], 'w', 's', 'e')
if not row[1] then return {0} end
local lease = redis.call('GET', 'l:{0}:' .. row[1])
if not lease then return {1} end
local session, url = string.match(lease, '^(%S+) (.+)$')
if session ~= row[2] then return {2} end
return {3, url, row[3], row[1]}
