"""Rulebooks from text or Python objects, and tools with as little as they need."""

import json
from collections.abc import Mapping
from textwrap import dedent
from typing import Any, Literal

from aggregator.domain.records import ToolRecord
from aggregator.policy.files.checking import check
from aggregator.policy.files.folder import CheckedPolicies, PolicySource
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import Rulebook

READ_ONLY = {"readOnlyHint": True}


def checked(*contents: object) -> CheckedPolicies:
    """Files `policies/1.yaml`, `policies/2.yaml` ... of these contents: text as it is, anything else as JSON."""
    return check(PolicySource(f"policies/{at}.yaml", text_of(content)) for at, content in enumerate(contents, 1))


def text_of(content: object) -> str:
    return dedent(content) if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def book(*contents: object) -> Rulebook:
    """The rulebook of files that must be right."""
    made = checked(*contents)
    assert made.documents is not None, "\n".join(map(str, made.problems))
    return Rulebook(made.documents)


def errors(*contents: object) -> list[str]:
    """Return the problems of these files."""
    made = checked(*contents)
    assert made.documents is None
    return [str(problem) for problem in made.problems]


def tool(name: str, annotations: Mapping[str, Any] | None = None, server: str | None = None) -> ToolRecord:
    """A tool by its canonical name; its server's id is the prefix unless said otherwise."""
    prefix, _, own = name.partition(".")
    definition: dict[str, Any] = {"name": own, "inputSchema": {"type": "object"}}
    if annotations is not None:
        definition["annotations"] = dict(annotations)
    return ToolRecord(
        server=server or prefix,
        prefix=prefix,
        own_name=own,
        definition=definition,
        listed={"canonical": name, "compatible": name},
        timeout=1.0,
    )


def target(name: str) -> Target:
    prefix, _, own = name.partition(".")
    return Target("tool", prefix, prefix, own)


def item(kind: Literal["resource", "prompt"], server: str, name: str, *, prefix: str = "") -> Target:
    """Return an item as rules see it; its server's id is the prefix unless said otherwise."""
    return Target(kind, server, prefix or server, name)


def verdict(made: Rulebook, agent: str, name: str, *, trusted: bool = False, **more: Any) -> str:
    rules = made.for_agent(agent)
    assert rules is not None
    return rules.decide(tool(name, **more), trusted=trusted).verdict
