"""The gateway inside another Python program: plain, for LangChain and LangGraph, and for the OpenAI Agents SDK.

All three run the whole gateway in the program's own process, for one agent at a time, without a wire in between.

Terms:
  host in this process: a host without a wire; it lists and calls tools as one agent
  listed tool: a tool in the agent's list, with its schema tightened by the policy
  elicit: the program's function that shows a form to its user

Entry point: `gateway.open_gateway`, exported as `aggregator.open_gateway`; `open_tools` in `langchain` and
`openai_agents`.

Must not import: `aggregator.cli`, which is in the same layer.
Held by tests/test_layers.py.
"""
