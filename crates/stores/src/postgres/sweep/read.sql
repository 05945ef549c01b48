select version, position from tidegate.sweep where name = $1
