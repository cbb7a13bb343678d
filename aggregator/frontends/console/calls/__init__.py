"""Calls on pages: the list with its counts, the timeline of one call, and live updates.

Terms:
  row: one call of the audit, in a list
  facet: a link that narrows a list, with the number of remaining calls
  timeline: the steps of one call, in their order, with their times as bars
  open page: a page in a browser that receives new rows
  live query: the query of one or more open pages, whose rows are searched for and rendered once

Entry point: `pages/calls.py`, which puts them together.

Must not import: `aggregator.frontends.console.pages` and what is above it. Held by tests/test_layers.py.
"""
