"""Connections to the database and transactions on it, for SQLite and PostgreSQL alike.

Terms:
  writer queue: the writers of this process take turns here, so that none polls a lock of the database.
  change counter: a row that a writing transaction counts up; readers compare it to see whether anything changed.
  lock file: a file beside the database that the process which opens or mends it holds.
  stamp: the newest migration that a database has.

Entry point: `engine.Engine`.
Must not import: the tables of single subjects above it (`approvals`, `keys`, `audit`, ...) and everything above
`storage` (tests/test_layers.py). `migrate` and the driver of PostgreSQL are loaded only when they are needed.
"""
