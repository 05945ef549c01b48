-- Waits until no open transaction has written events, and holds new ones back until this one ends.
lock table tidegate.outbox in share row exclusive mode
