select lineage, lane, hw, chain, cursor_hi, cursor_lo, clean, owner, label, token, lease_until, boot
from tidegate_consumer_lane where consumer = ?1 order by lineage, lane
