"""The data that outlives the process, in one database: SQLite by default, PostgreSQL by URL.

Terms:
  engine: transactions on the database, with errors that an operator can act on.
  migration: one change of the schema; the newest is the stamp that an opened file must have.
  audit log: calls and events in one chain of digests.
  approval: a call that waits for confirmation, in the queue of the database.
  catalog: the lists of a server from its last connection.
  change counter: a number that shows processes the writes of others.

Entry point: `database.open_database`; only it and the plain `records` are light to import.
Must not import: `config`, `wire`, the services and all above them (tests/test_layers.py).
"""
