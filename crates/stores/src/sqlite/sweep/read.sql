select version, position from tidegate_sweep where name = ?1
