"""Hosts on users' machines: the files with their MCP servers, and their formats.

Terms:
  host: a program that a user works in, such as Claude Desktop or Cursor
  host file: a file in which a host keeps MCP servers, of one scope: the user, a project, a profile
  entry: one MCP server in a host file
  machine: the system, the home folder, the variables and the working folder that paths are derived from

Law: nothing here writes, starts a program or opens a connection, and no error contains a value of an entry.

Entry points: `every_host.HOSTS`, `discover.discover`.
Must not import: `upstream` and the other packages of its layer; `app` and above (tests/test_layers.py).
"""
