"""`aggregator pins`: what servers were approved to say, shown, compared, approved and forgotten.

Terms (docs/glossary.md):
  pin, held, lock file: see `aggregator.pins`
  open item: an item that a server has otherwise than it was approved, as a running aggregator noted it
  baseline: what the pins of a server are: those of the lock file where it has the server, else those of the database

Entry points: `status.py`, `difference.py`, `approval.py`, `check.py`, a function for each command.

Must not import: `aggregator.cli.commands`, which is above it. Held by tests/test_layers.py.
"""
