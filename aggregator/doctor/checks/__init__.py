"""Checks that decide: facts of a part of the installation in, findings out.

A module here reads no file and no clock, and starts nothing; `aggregator.doctor.gather` collects the facts.

Terms:
  facts: the observations of one part, as plain values
  host entry: the aggregator's entry in the file of a host
  desktop host: a host that is started from the desktop, with a shorter `PATH` than a shell

Entry point: one function of each module, which `aggregator.doctor.examine` calls.
Must not import: `aggregator.doctor.gather` (tests/test_layers.py).
"""
