"""`aggregator policy suggest-labels`: labels proposed for the tools there are, as YAML to read and copy from."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aggregator.cli.policy.kept_tools import kept_tools
from aggregator.cli.policy.policy_setup import PolicySetup, rulebook_of, setup_for
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.flow.decide.suggest_labels import suggest_labels
from aggregator.policy.rulebook import Rulebook, target_of
from aggregator.policy.rules import BUILT_IN_LABELS

# Plain text in YAML; every full name has a dot, so that none is a word such as `no`.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_HEAD: Final = """\
# Labels proposed by the names, descriptions, parameters and annotations of {count}. Nothing was changed.
# Servers write these texts themselves, and words mislead: read each line before you copy it into a policy file.
# Of ten proposals about one is wrong, and of ten tools that need a label about two are missed.{left_out}
"""
_RULES: Final = """\
# The rules that use them, for example:
# flow:
#   - { after: untrusted, calls: outward, then: confirm }
#   - { after: [untrusted, private], calls: outward, then: deny }
"""


def suggest(path: Path | None, connect: bool = False) -> int:
    """Print labels for the tools of the servers, current or from the last connection; change nothing.

    Raises:
        OperatorError: there are no tools.
    """
    setup = setup_for(path)
    tools = _tools(setup, connect)
    if not tools:
        hint = "The servers have none." if connect else "With --connect the servers are asked."
        raise OperatorError(f"No tools are known, so no labels can be proposed. {hint}")
    rulebook, _ = rulebook_of(setup)
    say("\n".join(suggestion_lines(tools, rulebook)))
    return 0


def suggestion_lines(tools: Iterable[ToolRecord], rulebook: Rulebook | None) -> Iterator[str]:
    """Yield the proposal as YAML. Tools that patterns of the operator give a label already are left out."""
    found: dict[str, list[str]] = {label: [] for label in BUILT_IN_LABELS}
    count = labelled = 0
    for tool in sorted(tools, key=lambda one: one.name):
        count += 1
        target = target_of(tool)
        if rulebook is not None and rulebook.flow.matching(target):
            labelled += 1
            continue
        for label, why in suggest_labels(tool.server, tool.own_name, tool.definition):
            pattern = target.pattern
            written = pattern if _PLAIN.fullmatch(pattern) else json.dumps(pattern, ensure_ascii=False)
            found[label].append(f"    - {written}  # {why}")
    left_out = f"\n# Left out: {_many(labelled)} that your files give a label." if labelled else ""
    yield _HEAD.format(count=_many(count), left_out=left_out)
    yield "labels:"
    for label, lines in found.items():
        yield f"  {label}:" if lines else f"  {label}: []"
        yield from lines
    yield ""
    yield _RULES.rstrip()


def _tools(setup: PolicySetup, connect: bool) -> tuple[ToolRecord, ...]:
    return setup.known(connect).tools or kept_tools(setup.config, setup.storage)


def _many(count: int) -> str:
    return f"{count} tool{'' if count == 1 else 's'}"
