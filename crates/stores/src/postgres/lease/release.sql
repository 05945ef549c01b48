-- $1, $2, $3: scope, token, nonce. $4: the channel.
with released as (
  update tidegate.lease set nonce = null, holder = null
  where scope = $1 and token = $2 and nonce = $3
  returning scope
)
select pg_notify($4, '') from released
