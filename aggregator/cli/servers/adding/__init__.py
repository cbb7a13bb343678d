"""`aggregator add`: from words, an address, a description or a bundle to an entry that was tried.

Terms:
  request: the words and options of the command line
  draft: the entry that is to be written, with where it comes from
  preview: what will be started or reached, and the entry, shown before anything is started
  trial: one connection to the server, with its tools and their cost

Law: no program of a package is started before a person has seen its command, and no secret is printed.

Entry point: `add.run`.
Must not import: the commands (tests/test_layers.py).
"""
