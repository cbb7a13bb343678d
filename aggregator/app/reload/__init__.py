"""Taking over configuration and policy files that changed, while the program runs.

Each watches its files, reads them on a thread, and puts them into force whole or not at all: a broken file never
replaces a working one.

Terms:
  reload: files are read again and, where they are sound, put into force
  problem: a fault in a file, with its place and how to mend it
  revision: a name for the content of the policy files

Entry point: `config_reload.ConfigReload` and `policy_reload.PolicyReload`, which the app runs as tasks.

Must not import: `aggregator.app.app`, `aggregator.app.build` and `aggregator.app.status`, which use it. Held by
tests/test_layers.py.
"""
