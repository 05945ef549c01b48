delete from tidegate.consumer_lane where consumer = $1
