select at, action, reason, lineage, lane, n, event_id, fingerprint
from tidegate.inbox_audit where consumer = $1 order by id desc limit $2
