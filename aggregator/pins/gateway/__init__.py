"""Pins at work: which items of the connected servers are held, and why.

Terms (docs/glossary.md):
  item, pin, held: see `aggregator.pins.decide`
  judge: decide for each item of a list whether it is held, and describe its change
  pin book: the pins of all servers as this process knows them, and their effects on the current lists

Entry point: `PinBook`.
Must not import: views, calls, or other parts of the gateway that ask it; tests/test_layers.py holds that.
Rule: nothing here waits for the database; until pins are loaded, the settings of the server decide.
"""
