"""The first policy file: it allows what works without one, and shows what else can be written."""

from collections.abc import Sequence
from typing import Final

from aggregator.domain.principal import LOCAL

FILE: Final = "main.yaml"

_TEXT: Final = """\
# yaml-language-server: $schema={schema}
#
# Policies: which agent may see and call what. From now on nothing is allowed that is not written here.
# All files of this folder count together. After an edit: aggregator policy check
# Why may an agent do this, or not: aggregator policy explain AGENT TOOL

agents:
  # Who reaches the aggregator without a key, over stdio or on this computer.
  {agent}:
    roles: [everything]

roles:
  # What worked before there was this file: the servers of the configuration, with all they have.
  everything:
    allow:
{allow}

  # Shell patterns over full names, case-sensitive. Quote them when they begin with *.
  #
  # reader:
  #   allow:
  #     - time.*                     # every tool of time
  #     - legal.search_statutes      # one tool
  #     - server:legal               # everything of a server: tools, resources, prompts
  #     - resource:legal.*           # its resources
  #   deny:
  #     - "*.delete_*"               # counts more than any allow
  #   confirm:
  #     - shop.pay_*                 # a person must agree each time
  #   confirm_by: queue              # with `aggregator approvals`; else the host that calls may say yes itself
  #   annotations:
  #     destructive: confirm         # what may destroy something; see docs/policies.md
  #   arguments:
  #     shop.search:                 # JSON Schema, besides the tool's own
  #       properties: {{ limit: {{ maximum: 20 }} }}
  #   limits:
  #     shop.*: {{ per_minute: 30, result_bytes: 64KiB }}

# What every agent has, as if it were a role.
#
# defaults:
#   deny: ["*.drop_*"]
#   denials: explicit                # or hidden: as if there were no such tool

# What may follow on what in one conversation: after a tool that reads what strangers write, ask before one that sends.
# `aggregator policy suggest-labels` proposes labels for the tools there are; docs/policies.md, "Flow rules".
#
# labels:
#   untrusted: [web.*, mail.read_*]
#   outward: [web.*, mail.send*]
# flow:
#   - {{ after: untrusted, calls: outward, then: confirm }}
"""


def starter(servers: Sequence[str], schema: str) -> str:
    """Return the text of the file.

    `servers` are the ids of the configured servers, `schema` is the path of the schema.
    """
    allow = "\n".join(f"      - server:{server}" for server in servers)
    return _TEXT.format(schema=schema, agent=LOCAL.agent_id, allow=allow or '      []  # such as "- server:time"')
