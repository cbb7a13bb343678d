"""Packages that contain MCP servers, turned into entries of the configuration.

Terms:
  registry: the MCP Registry, or another service with its API, that lists servers by name
  server.json: the description of one server in a registry: its packages and remote addresses
  package: the target of an npm, PyPI, OCI or MCPB reference
  bundle: an MCPB file: a ZIP archive with a manifest and the program

Law: nothing of a package runs here, and no archive writes outside of its own folder.

Entry points: `source.read_source`, `server_json.read_description`, `registry.look_up`, `bundle_archive.read_archive`.
Must not import: `upstream` and the other packages of its layer; `app` and above (tests/test_layers.py).
"""
