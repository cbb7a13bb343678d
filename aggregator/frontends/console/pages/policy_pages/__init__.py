"""The pages about policies: a decision explained, the files as they were read, and an edit tried out.

Terms:
  explanation: the decision about one call, with every rule that spoke and the line that would change it
  edit: a policy file as a person would have it, of which nothing is written
  preview: the agents and tools for which an edit would change a decision

Entry points: `policies.PoliciesPage` and `policy_edit.PolicyEditPage`, listed in `pages/every_page.py`.

Must not import: the pages beside it; nothing here decides, the playground of the gateway is asked. Held by
tests/test_layers.py.
"""
