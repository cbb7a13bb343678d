"""The audit log in the database: rows of calls and events in one chain, so that a change behind its back shows.

Terms:
  chain: the digest of a row covers the row, its number and the digest of the row before it.
  head: number and digest of the newest row.
  anchor: a head that was noted outside of the database.
  chain key: a secret with which the digests are HMACs.
  trim: the removal of the oldest rows, which leaves an event.

Entry point: `log.AuditRows` writes, `read.open_reader` reads, `verify.verify` proves.
Must not import: `opening` and `database`, which make it, and everything above `storage` (tests/test_layers.py).
"""
