"""Retention: the removal of rows that are kept for no longer, beside processes that write.

Terms:
  kind: rows of one table that are kept for some time
  prune: remove the rows of every kind that are kept for no longer, in short transactions
  trim: the same for the audit log, which leaves an event (aggregator/storage/audit)

Law: what is removed, no process needs any more; so the same may be removed by several processes at once.

Entry points: `prune.prune`, which `Database.prune` calls for a running gateway, and `prune.would_prune`.
Must not import: `opening` and `database`, which make an open database, and all above `storage` (tests/test_layers.py).
"""
