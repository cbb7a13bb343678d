"""Dialects: the form of tool definitions that a model API takes, made for each host from the definitions of servers.

Law: the server's definition checks arguments and is pinned. A mended definition only guides the model, and its
arguments are read back before the check.

Terms (docs/glossary.md has all of them):
  dialect: the rules of one model API for the definitions of tools
  mend: change a definition so that it breaks no rule of a dialect
  read back: turn arguments that fit a mended schema into those that the original means

Entry point: `gateway.Dialects`, which lists mend with and calls read back with.
"""
