"""Worker processes for checks that may take long, so that a check can be ended by killing its process.

The gateway's process compiles and checks only if that is certain to take milliseconds; workers do all else. The reasons
are in docs/decisions/0013-what-runs-on-the-event-loop.md.

Terms:
  worker: a process that makes one check at a time; see `worker.py`
  turn: the place of a check in the queue, in which servers and agents share fairly; see `turns.py`
  interrupted check: one that was ended by time, by a full queue or by the end of its worker; it is reported as such

Entry point: `workers.CheckWorkers`.
Must not import: `schemas.checks`, which is built on it; tests/test_layers.py holds that.
"""
