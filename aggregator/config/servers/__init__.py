"""One entry of `mcpServers`, from the object in the file to a `ServerConfig`.

The keys of a dozen other hosts are translated, references are resolved, secrets are collected, names are assigned.

Terms:
  foreign key: a key of another host for one of our fields, or one without a meaning here
  gap: a text whose reference cannot be resolved
  id: the server's name in this program; its prefix begins the names of its tools
  override: an environment variable that changes or adds a server

Entry point: `server.ServerReader.read`.

Must not import: `aggregator.config.load` or `aggregator.config.sections`, which read the whole file.
Held by tests/test_layers.py.
"""
