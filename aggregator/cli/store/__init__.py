"""`aggregator backup`, `restore`, `migrate-store` and `prune`: the database as a whole, for its operator.

Terms:
  archive: the file of a backup
  target: the database that is filled
  prune: the removal of expired rows

Law: a command does its whole task, or nothing; only `prune` works in steps.

Entry point: `commands.store_app`. Each command has a module, which is imported when it runs.
Must not import: anything slow in `commands`, so that `--help` does not wait for it; tests/test_layers.py holds that.
"""
