select lineage, lane, hw, start, applied, voids, skipped, parked, discarded
from tidegate.consumer_lane where consumer = $1 order by lineage, lane
