-- ?1 a relay: events that it had in hand in lanes that others took after its leases ran out.
select sum(planned) from tenure where ran_out and before = ?1
