"""Worker processes for checks that may take long, so that a check can be ended by killing its process.

The gateway's process compiles and checks only what is certain to take milliseconds; all else is sent to a worker. The
reasons are in docs/decisions/0013-what-runs-on-the-event-loop.md.

Terms:
  worker: one process that makes one check after another; see `worker.py`
  turn: the place of a check in the queue, in which servers and agents share fairly; see `turns.py`
  interrupted check: one that was ended by time, by a full queue or by the end of its worker; it is reported as such

Entry point: `workers.CheckWorkers`.
Must not import: `schemas.checks`, which is built on it; tests/test_layers.py holds that.
"""
