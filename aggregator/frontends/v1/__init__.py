"""`/v1`: tools over plain HTTP and JSON, for applications that do not speak MCP.

A request may contain the model's own calls, in the form of OpenAI or Anthropic; the answer contains the messages to
append to the conversation.

Terms:
  batch: the calls of one request, with their form and the conversation they belong to
  outcome: the result or error of one call, as text for the model and as fields for programs
  portable schema: an input schema in the form that model APIs accept
  conversation: calls with one id, which share a limit

Entry point: `routes.V1Frontend.serve`; the routes are in `routes.ROUTES`, their document in `openapi.py`.

Must not import: `aggregator.frontends.server`, which is above it, and `aggregator.frontends.stdio`, which is beside it.
Held by tests/test_layers.py.
"""
