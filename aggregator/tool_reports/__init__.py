"""Tool reports: what agents say is broken about a tool, for the operators (`report_tool: true`).

Terms (docs/glossary.md):
  tool report: the reasons that one agent gave against one tool, and how often it reported it
  reason: a text of an agent, cleaned, cut and without secrets

Entry point: `meta_tool.TOOL`, the meta tool `report_tool`; `book.ReportBook` takes the reports of a process.
Must not import: upstreams; tests/test_layers.py holds that.
"""
