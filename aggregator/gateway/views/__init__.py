"""The views of agents: the catalog built from all upstreams, filtered by the rulebook in force.

The builder turns the lists of upstreams into snapshots; a view selects the part for one agent; the finder searches in
that part. Work that grows with the number of tools runs in slices, ahead of need, and is cached.

Terms:
  snapshot: an immutable catalog of tools, or of resources, templates and prompts
  view: one agent under one rulebook
  listing: the tools of a view, in the order and with the schemas of the agent
  slice: a piece of long work, after which other tasks get their turn

Entry point: `views.Views.of` for the view of a principal, `catalog_builder.CatalogBuilder` for the snapshots.
Must not import: `calls`, `ask`, `reads`, `meta`, nor anything above the gateway; tests/test_layers.py holds that.
"""
