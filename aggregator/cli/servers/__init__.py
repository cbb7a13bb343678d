"""Commands that edit the servers of the configuration file: `aggregator add`, `remove`, `enable`, `disable`, `rename`.

A command reads the file, changes one entry in place, and a running gateway takes the edit over.

Terms:
  entry: one server of `mcpServers` in the configuration file
  trial: one connection to a server that is to be added, which shows its tools and their cost
  backup: the file as it was before the edit

Entry point: `commands.servers_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).
"""
