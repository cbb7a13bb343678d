"""The configuration: `aggregator.json`, checked, with what the environment adds and the defaults.

Law: one bad entry costs that entry and nothing else; no message shows a value that may be a secret.

Terms:
  entry: one server in `mcpServers`, as its host writes it; becomes a `ServerConfig`
  section: an object of settings at the root of the file, such as `http` or `audit`
  reference: `${NAME}` or `${file:path}` in a text, resolved before the text is checked
  problem: one complaint about one place of the file, with the fix
  changes: what differs between two configurations, and what of it needs a restart

Entry point: `load.load_found`, which returns a `Loaded`; the models are in `model.py` and `settings.py`.

Must not import: `aggregator.storage` and `aggregator.wire`, which are in the same layer, nor anything above. No asyncio
and no library of a server either, since every start reads a configuration.
Held by tests/test_layers.py and tests/config/test_load.py.
"""
