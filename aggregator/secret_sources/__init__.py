"""Sources of secrets besides variables: the user's keyring, the output of programs, and files.

Until a secret is needed, only its reference is kept. A separate program resolves it, with limits of time and size, so
that a keyring that waits for its user blocks nothing.

Law: no message contains a value or the output of a program.

Terms:
  keyring: the store of secrets of the operating system, reached through the library of this name
  reference: `${keyring:name}`, `${command:program argument ...}` or `${file:path}` in a text of the configuration
  value: the secret of a reference at one moment

Entry point: `values.value_of`.

Must not import: `aggregator.redaction` and `aggregator.editing`, which are in the same layer, nor anything above; and
never the library `keyring`, which takes long to load. Held by tests/test_layers.py.
"""
