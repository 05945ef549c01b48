select hw from tidegate_consumer_lane where consumer = ?1 and lineage = ?2 and lane = ?3
