"""Retention: the removal of expired rows, beside processes that write.

Terms:
  kind: rows of one table that are kept for some time
  prune: remove the expired rows of every kind, in short transactions
  trim: the same for the audit log, which leaves an event (aggregator/storage/audit)

Law: no process needs the removed rows any more; so several processes may remove the same at once.

Entry points: `prune.prune`, which `Database.prune` calls for a running gateway, and `prune.would_prune`.
Must not import: `opening` and `database`, which make an open database, and all above `storage` (tests/test_layers.py).
"""
