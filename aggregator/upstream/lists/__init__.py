"""The lists of an upstream: read page by page, kept up to date, and its resource subscriptions.

Terms:
  kind: tools, resources, resource templates, prompts or skills (`list_kinds`)
  page: one result of a list request, with a cursor to the next
  freshness: for how long a list holds, as the server states it (`ttlMs`)
  subscription: a resource whose updates the server announces

Entry point: `lists.UpstreamLists` and `subscriptions.UpstreamSubscriptions`.

Must not import: health, the upstream itself, or the catalog, which reads the lists; tests/test_layers.py holds that.
"""
