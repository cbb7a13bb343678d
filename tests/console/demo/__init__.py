"""A small company's gateway to look at: servers, agents, rules and calls as people have them.

`scripts/demo` runs it for as long as one likes; the browser tests use the same servers.

Terms:
  catalog: the tools of one server, with what they answer
  world: the configuration, the policy files and the keys of the demo
  traffic: the calls that the agents make

Entry point: `python -m tests.console.demo`.
"""
