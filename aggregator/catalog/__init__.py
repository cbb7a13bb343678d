"""The tools, resources and prompts of all upstreams, validated and named, as frozen snapshots.

An upstream's definitions are validated and given the names that hosts see; a snapshot is built anew at each change and
never modified. Below it: search (`search/`), the tools a chat message asks for (`intent/`), and texts about tools
(`describe/`). Nothing here knows agents or policies: the caller decides what an agent may see.

Terms:
  catalog: all tools of all upstreams; see `catalog.py`
  resources: the snapshot of resources, templates and prompts; see `resources.py`
  listing: tools in the order they are listed, as pages of JSON; see `listing.py` and `pages.py`
  own name: the name that the upstream gave; the exposed name is `server.tool`
  steps: a generator that does a long computation in small steps, so that the event loop can go on in between

Entry point: `catalog.Catalog`, built by `gateway/views/catalog_builder.py`.
Must not import: `app`, `frontends`, `gateway`, and the other services (`policy`, `schemas`, `upstream` ...);
tests/test_layers.py holds that.
"""
