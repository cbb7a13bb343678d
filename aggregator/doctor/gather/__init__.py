"""Collection of the facts for the checks: files, processes, addresses and the database, read only.

Terms:
  trial: a start of the servers, or of the aggregator in a host's way, to see the outcome
  patience: the seconds that a step may take
  session: begun by `initialize`, here between the doctor, in the place of a host, and the aggregator

Law: nothing is changed, every wait has an end, and no value of an environment or a header is kept in a fact that is
printed.

Entry point: one function of each module, which `aggregator.doctor.examine` calls.
Must not import: `cli` (tests/test_layers.py).
"""
