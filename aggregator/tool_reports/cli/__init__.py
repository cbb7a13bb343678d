"""`aggregator reports`: lists what agents reported about tools, and clears it.

Terms (docs/glossary.md):
  tool report: the reasons that one agent gave against one tool, and how often it reported it
  clear: remove the reports of a tool or a server, once it is mended

Entry point: `commands.reports_app`.
Must not import: the gateway, which reads and writes the same rows; tests/test_layers.py holds that.
"""
