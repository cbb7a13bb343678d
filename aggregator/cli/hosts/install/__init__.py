"""`aggregator install`: our entry in the file of another program, and the file's former content.

Terms:
  entry: the configuration by which a host starts or reaches this program
  take-over: the host's own servers moved into our configuration
  record: the files' contents before an install, kept until it is undone
  preview: a diff without secrets, printed before anything is written

Law: a server is in one of the two files at every moment: ours is written first, and restored last.

Entry points: `command.run` and `undo.run`.
Must not import: the gateway and what is above it: a configuration is read, never served (tests/test_layers.py).
"""
