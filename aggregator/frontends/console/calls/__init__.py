"""Calls as pages show them: the list with its counts, the timeline of one call, and what comes while people look.

Terms:
  row: one call of the audit, as a list shows it
  facet: a link that narrows a list, with how many calls it leaves
  timeline: the steps of one call, in their order, with their times as bars
  open page: a page in a browser that is told of new rows
  live query: the query of one or more open pages, for which rows are looked for and rendered once

Entry point: `pages/calls.py`, which puts them together.

Must not import: `aggregator.frontends.console.pages` and what is above it. Held by tests/test_layers.py.
"""
