"""The accounts at servers in a running program, and the pages on which users connect them.

A process that serves has the pages at its own address. `aggregator stdio` opens a listener on this machine when the
first link is made, since it has no other.

Terms:
  grants: the accounts of one process; None if no server has `auth`
  link: the address of a page on which a user connects an account
  base: the source of the address of these pages; grants call it for each link

Entry points: `pages.connect_pages`, `pages.grants_of`.
Must not import: `app.build` and what builds or reports the program; tests/test_layers.py holds that.
"""
