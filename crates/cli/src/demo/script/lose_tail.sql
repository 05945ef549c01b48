-- The registers go back to the entries that are left.
update tidegate_register set
  n = coalesce((select max(n) from tidegate_entry e where e.register = tidegate_register.id), 0),
  chain = coalesce(
    (select chain from tidegate_entry e where e.register = tidegate_register.id order by n desc limit 1),
    zeroblob(16));
update tidegate_stream set last = coalesce(
  (select max(id) & ((1 << 40) - 1) from tidegate_entry where id >> 40 = tidegate_stream.id), 0);
