select lineage, lane, hw, chain, cursor_hi, cursor_lo, clean, owner, label, token, lease_until
from tidegate.consumer_lane where consumer = $1 order by lineage, lane
