"""A release on this machine: the version in one place, the changelog, a tag, and what is built from it.

Terms:
  release: a commit with a version, its tag, and what is built from that tag
  changelog: CHANGELOG.md, whose first section is `Unreleased` until a release gives it a version and a date
  bundle: `aggregator.mcpb`, which hosts such as Claude Desktop install by a double click

Entry point: `sh scripts/release VERSION`.
"""
