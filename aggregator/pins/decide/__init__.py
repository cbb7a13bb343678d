"""Pinned definitions: the approved definitions of a server, compared with its current ones.

Terms (docs/glossary.md):
  item: one tool, prompt, resource template or skill of a server, or its instructions
  pin: the approved definition of an item, by its digest
  class of change: the effect of a change on models and hosts, such as `wider` or `description`
  held: not listed and not callable, until an operator approves the current definition
  lock file: `aggregator.pins`, the pins of a configuration as a file for version control

Entry points: `pinned_item` makes the digest, `compare` finds the changes of one server, `is_held` decides.
Must not import: storage, the gateway, or any other service; nothing here awaits or reads a clock
(tests/test_layers.py holds that).
"""
