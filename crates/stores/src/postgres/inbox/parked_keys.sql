select count(*) filter (where state = 'retrying'), count(*) filter (where state = 'dead'), coalesce(sum(events), 0)::bigint
from tidegate.inbox_parked where consumer = $1
