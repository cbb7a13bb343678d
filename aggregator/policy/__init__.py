"""The policy: which agent may see and call what, decided from the rules of YAML files.

Law: deciding is pure. A decision depends on rules, agent and target only, and names the rule that decided, with file
and line; `flow/` makes it stricter after earlier reads. Files are read and checked in `files/`; `live.py` swaps the
rulebook whole.

Terms:
  rulebook: all rules at one moment, frozen; see `rulebook.py`
  rule: one line of a file about the targets that a pattern matches; see `rules.py`
  pattern: a shell pattern over canonical names; see `patterns.py`
  finding: one reason for or against; the first that counts decides; see `decide.py`
  ruling: a decision with limits and tightened schemas; see `rulebook.py`
  binding: the server whose tool a plain name means for an agent

Entry point: `live.LivePolicies`, and of its rulebook `Rulebook.for_agent`.
Must not import: `app`, `frontends`, `gateway`, and the other services (`identity`, `catalog`, `upstream` ...);
tests/test_layers.py holds that.
"""
