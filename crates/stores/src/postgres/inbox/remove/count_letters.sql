select (select count(*) from tidegate.inbox_parked_event where consumer = $1)
  + (select count(*) from tidegate.inbox_skipped where consumer = $1)
