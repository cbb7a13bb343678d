"""The commands `aggregator secrets set`, `list` and `delete`: secrets in the keyring of this user.

A secret is read from the terminal without echo, or from standard input; it is never an argument, and never printed.

Terms:
  keyring: the store of secrets of the operating system, reached through the library of this name
  name: the name a secret is kept under, and referred to by
  reference: `${keyring:name}` in the configuration

Entry point: `commands.secrets_app`.
Must not import: at the top of `commands`, anything slow (tests/test_layers.py).
"""
