"""A call of a tool, from its name to its result, and the relay for everything that goes to an upstream.

Terms:
  pipeline: the steps of a call, in order; `Pipeline.call_tool` reads top to bottom.
  stage: what a step makes and the next one takes (`Permitted`, `Checked`); only the pipeline makes them.
  plan: the tool, upstream, ruling and check of a call, and why it needs a task, if it does; both ways run it.
  relay: the one place that sends a host's request to an upstream, calls and reads alike.
  round: one request of a call and its answer; a question of the upstream to the host makes another.
  attempt: one try to have a call answered by one upstream; failover makes more of them.
  deliver: turn an upstream's result into the host's.
  provenance: the facts in a result about its server.

Entry point: `Pipeline.call_tool` in `pipeline.py`; for resources, prompts and completions `Relay.read_item`.

Must not import: `meta`, `reads`, `dispatcher.py`, nor anything above the gateway; tests/test_layers.py holds that.
"""
