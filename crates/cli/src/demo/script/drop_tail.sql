-- Entries that were noted as lost.
delete from tidegate_entry where (register, n) in (select register, n from lost_entry)
