"""The workers of one `aggregator serve --workers N`: who starts them, and how they share one listening socket.

Terms:
  worker supervisor: the process that the operator starts; it loads no gateway, and starts the workers
  worker: a process that serves, and a replica of the group (`aggregator.replicas.group`)
  table: memory that all of them share: the live workers, their connections, and whether each still runs
  hand over: take no new connections, and end once the existing ones have moved elsewhere

Entry point: `supervisor.WorkerSupervisor` for the supervisor, `worker.inherited_worker` in a worker.
Must not import: asyncio in what the supervisor loads, so that it stays small; nothing above the ground layer.
tests/test_layers.py holds the layers, tests/replicas/test_workers.py the memory.
"""
