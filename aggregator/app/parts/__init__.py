"""The construction of groups of parts that belong together, for `build_app`.

Terms (docs/glossary.md):
  part: an object created once for the process, with the parts it uses as constructor arguments
  snapshot: all tools, or all resources, of a moment; replaced as a whole, never changed
  lists: the parts that follow the upstreams: snapshots, views of them, and the hosts to notify

Entry point: `build_lists`.
Must not import: `build`, `app`, or what runs them; tests/test_layers.py holds that.
Rule: nothing runs yet here.
"""
