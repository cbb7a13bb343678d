"""Backups of the database: one file for both kinds of store, made while processes write, and proven before it counts.

Terms:
  archive: the file of a backup, a gzipped tar of parts
  part: rows of one table as JSON lines, a bounded number of bytes of them
  manifest: the last member of an archive: the length and SHA-256 of every part, the number of rows of each table
  snapshot: the state of a database at one moment
  target: a database to fill, created whole or not at all

Entry points: `copying.back_up`, `copying.restore`, `copying.migrate_store`.
Must not import: `opening` and `database`, which make an open database, and all above `storage` (tests/test_layers.py).
"""
