"""Checks that decide: facts of a part of the installation in, findings out.

A module here reads no file, starts nothing and knows no time but what it is given; `aggregator.doctor.gather` collects
the facts.

Terms:
  facts: what was learnt of one part, as plain values
  host entry: what the file of a host says of the aggregator
  desktop host: a host that is started from the desktop, with a `PATH` that is shorter than that of a shell

Entry point: one function of each module, which `aggregator.doctor.examine` calls.
Must not import: `aggregator.doctor.gather` (tests/test_layers.py).
"""
