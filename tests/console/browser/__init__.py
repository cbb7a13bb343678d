"""The console in a real browser: what a person does there, and what other sites and hostile servers try.

They need Chromium: the one that `$CHROMIUM` names, else the first that is on PATH. Nothing is ever downloaded. Where
there is none these tests do not run, which is said at the end of the run; a `$CHROMIUM` that is not there is an error.

Terms:
  tab: one browser context, with a page and what its console said
  gateway: `aggregator serve` in front of the demo's servers

Entry point: the fixtures in `conftest.py`.
"""
