"""Collection of the facts that checks decide by: files, processes, addresses and the database, looked at.

Terms:
  trial: a start of the servers, or of the aggregator as a host starts it, to see what comes of it
  patience: the seconds that a step may take
  session: what `initialize` begins: here between the doctor, in the place of a host, and the aggregator

Law: nothing is changed, every wait has an end, and no value of an environment or a header is kept in a fact that
is printed.

Entry point: one function of each module, which `aggregator.doctor.examine` calls.
Must not import: `cli` (tests/test_layers.py).
"""
