"""`aggregator pins`: the approved definitions of servers, shown, compared, approved and forgotten.

Terms (docs/glossary.md):
  pin, held, lock file: see `aggregator.pins.decide`
  open item: an item that differs from its approved definition, as recorded by a running aggregator
  baseline: the source of a server's pins: the lock file if it has the server, else the database

Entry points: `status.py`, `difference.py`, `approval.py`, `check.py`, a function for each command.

Must not import: `aggregator.cli.commands`, which is above it. Held by tests/test_layers.py.
"""
