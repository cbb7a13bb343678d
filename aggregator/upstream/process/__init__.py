"""The child processes of upstreams: started with limits and a clean environment, ended with all they started.

Terms:
  child: the program of one server, leader of a process group of its own
  mark: an environment variable by which a child and its descendants are found
  reaper: the second process, which ends the process groups if the aggregator is killed
  orphan: a process that outlived the child that had started it
  launch: a program that serves a URL, started before the connection

Entry point: `process.run_child`, and `launch.launched` for servers with a URL.

Must not import: sessions, transports, or anything that knows MCP; tests/test_layers.py holds that.
"""
