"""Skills: folders of instructions that servers offer, found and read like tools.

Parts:
  catalog, uris, frontmatter: what a skill is
  finder: the skills that an agent sees, by keyword
  reads, files: skills as resources
  meta_tools: skills in `search_tools`, `describe_tools` and `call_tool`

Must not import: see `aggregator.FEATURES`: each part stands on the layer of its place there
(tests/test_layers.py).
"""
