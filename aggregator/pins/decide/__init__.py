"""Pinned definitions: the approved definitions of a server, compared with its current ones.

Terms (docs/glossary.md):
  item: one tool, prompt, resource template or skill of a server, or its instructions
  pin: the approved definition of an item, by its digest
  class of change: the effect of a change on models and hosts, such as `wider` or `description`
  waits: the current definition is not shown until an operator approves it; the approved one is served until then
  held: not listed and not callable, since the approved definition cannot be served, or there is none
  lock file: `aggregator.pins`, the pins of a configuration as a file for version control

Entry points: `pinned_item` makes the digest, `compare` finds the changes of one server, `waits` decides,
`approved_definition` returns what is served until then.
Must not import: storage, the gateway, or any other service; nothing here awaits or reads a clock
(tests/test_layers.py holds that).
"""
