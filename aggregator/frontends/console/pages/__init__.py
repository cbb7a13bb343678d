"""The pages of the console, one module each; `every_page.all_pages` lists them.

A new page is a module here, a template with its name, and a line in that list.

Terms:
  route: the way to a page, with the least role that may take it
  page view: the data of a page, with its template and title
  fragment: a part of a page, rendered alone when only that part is wanted

Entry point: `every_page.all_pages`.

Must not import: `aggregator.frontends.console.console` and `aggregator.frontends.console.entry`, which use it. Held by
tests/test_layers.py.
"""
