"""Applying changed configuration and policy files while the program runs.

Each part watches its files, reads them in a thread, and puts them into force whole or not at all: a broken file never
replaces a working one.

Terms:
  reload: read files again and, if they are valid, put them into force
  problem: a fault in a file, with its place and the fix
  revision: a name for the content of the policy files

Entry point: `config_reload.ConfigReload` and `policy_reload.PolicyReload`, which the app runs as tasks.

Must not import: `aggregator.app.app`, `aggregator.app.build` and `aggregator.app.status`, which use it. Held by
tests/test_layers.py.
"""
