"""`aggregator audit`: reads the audit log while gateways write it, and proves that it is whole.

Law: nothing here writes to the database.

Terms:
  row: one call or event in the audit log
  filter: the agent, server, tool, status and time that a row must match
  anchor: number and digest of a row, kept elsewhere to prove later that the log was not cut
  chain: the digests of the rows, each made with the one before

Entry point: the commands in `commands.py`; `show.py` prints, `proof.py` verifies.

Must not import: `aggregator.cli.commands` and `aggregator.cli.policy`, which are above it.
Held by tests/test_layers.py.
"""
