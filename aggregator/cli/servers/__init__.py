"""Commands that edit the servers of the configuration file: `aggregator add`, `remove`, `enable`, `disable`, `rename`.

A command reads the file and changes one entry in place; a running gateway applies the edit.

Terms:
  entry: one server of `mcpServers` in the configuration file
  trial: one connection to a new server, which shows its tools and their cost
  backup: the file's content before the edit

Entry point: `commands.servers_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).
"""
