"""`aggregator add`: from words, an address, a description or a bundle to a tested entry.

Terms:
  request: the words and options of the command line
  draft: the planned entry, with its origin
  preview: the program to start or the address to reach, and the entry, shown before anything is started
  trial: one connection to the server, with its tools and their cost

Law: no program of a package is started before a user has seen its command, and no secret is printed.

Entry point: `add.run`.
Must not import: the commands (tests/test_layers.py).
"""
