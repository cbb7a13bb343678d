"""The pages about policies: a decision explained, the files in force, and an edit tried out.

Terms:
  explanation: the decision about one call, with every matching rule and the line that would change it
  edit: a proposed policy file, which is not written
  preview: the agents and tools for which an edit would change a decision

Entry points: `policies.PoliciesPage` and `policy_edit.PolicyEditPage`, listed in `pages/every_page.py`.

Must not import: the pages beside it; nothing here decides, it uses the playground of the gateway. Held by
tests/test_layers.py.
"""
