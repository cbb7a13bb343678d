"""Bounds on the cost that one peer can cause: time on the event loop, memory, tasks, rates, entries.

Terms:
  offload: run costly work in a thread, so that the event loop goes on.
  slice: a piece of long work, after which the event loop has a turn.
  token bucket: a rate with a burst.
  result memory: the bytes that the results of all calls in flight may take.
  tasks: the owner of asyncio tasks, which ends them all.
  kept work: background work that is restarted when it raises.

Entry point: `tasks.Tasks`, `slices.Slices`, `offload.for_each`; the modules are independent.
Must not import: anything of the package but the rest of `domain` (tests/test_layers.py).
"""
