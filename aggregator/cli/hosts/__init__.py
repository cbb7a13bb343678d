"""Commands about the files of host programs: `aggregator import` and `aggregator install`.

`import` reads the servers that other programs have, `install` writes our own entry into a program's file.

Terms:
  host file: a file in which a program such as Claude Desktop keeps its MCP servers
  preview: the planned changes, printed before anything is written
  undo: restore a host file byte for byte

Entry point: `commands.hosts_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).
"""
