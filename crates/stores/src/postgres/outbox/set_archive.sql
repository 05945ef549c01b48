-- $1 outbox, $2 archive
update tidegate.outbox_settings set archive = $2 where id = $1
