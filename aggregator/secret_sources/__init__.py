"""Sources of secrets besides variables: the keyring of this user, the output of programs, and files.

What is kept of a secret until it is needed is a reference. It is resolved by a program that runs beside this one, with
limits of time and size, so that a keyring that waits for a person holds up nothing.

Law: no message has a value in it, nor anything that a program printed.

Terms:
  keyring: the store of secrets of the operating system, reached through the library of this name
  reference: `${keyring:name}`, `${command:program argument ...}` or `${file:path}` in a text of the configuration
  value: what a reference stands for at a moment

Entry point: `values.value_of`.

Must not import: `aggregator.redaction` and `aggregator.editing`, which are in the same layer, nor anything above; and
never the library `keyring`, which takes long to load. Held by tests/test_layers.py.
"""
