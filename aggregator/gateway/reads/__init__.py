"""Resources, prompts, completion and subscriptions: requests of a host that read from an upstream.

Each of them resolves a name or URI to an item of one upstream, lets the policy decide, and sends the request on through
`calls/relay.py`. Subscriptions to resources live here too, for both eras.

Terms:
  item: a resource, a template or a prompt of an upstream
  own name: the name or URI that the upstream uses for an item
  prefix: the part of an exposed name or URI that names the server
  subscription: the wish of a host to be notified when a resource changes

Entry point: `resources.Resources`, `prompts.Prompts`, `completion.Completion`, `listen.ListenStreams`.
Must not import: `meta`, `dispatcher.py`, nor anything above the gateway; tests/test_layers.py holds that.
"""
