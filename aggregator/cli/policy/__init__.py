"""`aggregator policy`: checks, explains and tests the policy files, without serving hosts.

Terms:
  policy file: a YAML file in the folder `policies`; all of them are one policy
  case: a line in `policies/cases` with an expected decision about an agent
  decision: allowed, denied or to be confirmed, with the rule and its file and line
  full name: `server.tool`, the form in rules

Entry point: `policy.py`, one function for each command.

Must not import: `aggregator.cli.commands`, which is above it. Held by tests/test_layers.py.
"""
