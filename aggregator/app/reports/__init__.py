"""The reports of all replicas of a group, put together: whichever replica is asked, it speaks for all.

Terms:
  report: what one replica says of itself on its page `/readyz`
  page: the metrics of one replica, as text
  sibling: a worker of the same supervisor; the metrics of siblings are one page
  silent: a replica that does not answer in time; it is named, and not waited for

Entry point: `GroupReports`, made by `cli/serve.py`.
Must not import: `aggregator.app.build`, which is above it; tests/test_layers.py holds that.
"""
