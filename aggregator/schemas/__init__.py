"""Checks of arguments and results against JSON Schema, with faults from which a model can correct itself.

Law: schemas come from untrusted servers. Nothing here fetches, and no schema or value may crash the program or stall
the event loop: worker processes (`workers/`) make the checks that may take long.

Terms:
  check: a compiled schema, with those that tighten it; see `check.py`
  engine: `jsonschema-rs`, used if its work has a known bound
  interpreter: our own, which counts its steps: for explanations, and if the engine could stall; see `interpreter.py`
  fault: one problem of a value: place, expected, got; see `fault.py`
  refusal: faults as the result of a call; see `refusal.py`
  weight: the cost of a regular expression per character; see `structure/patterns.py`

Entry point: `checks.SchemaChecks`, and for the long checks `workers.workers.CheckWorkers`.
Must not import: `app`, `frontends`, `gateway`, and the other services (`policy`, `catalog`, `upstream` ...);
tests/test_layers.py holds that.
"""
