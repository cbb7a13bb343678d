"""Pins at work: which items of the connected servers are held, and why.

Terms (docs/glossary.md):
  item, pin, held: see `aggregator.pins`
  judge: say of each item of a list whether it is held, and what changed
  pin book: the pins of all servers as this process knows them, and what follows from them for the current lists

Entry point: `PinBook`.
Must not import: views, calls, or other parts of the gateway that ask it; tests/test_layers.py holds that.
Rule: nothing here waits for the database; what is not known yet is decided by the settings of the server.
"""
