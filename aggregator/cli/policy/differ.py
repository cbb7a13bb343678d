"""`aggregator policy diff FILE`: the effects of a policy file, before it is put into the folder."""

from pathlib import Path
from typing import Final

from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import Trusted
from aggregator.policy.compare.diff import ChangeGroup, PolicyDiff
from aggregator.policy.compare.edits import PolicyEdit
from aggregator.policy.files.folder import LARGEST
from aggregator.policy.live import LivePolicies

_GROUPS: Final = 20
_NAMES: Final = 5


def print_difference(
    live: LivePolicies, file: Path, remove: bool, tools: tuple[ToolRecord, ...], trusted: Trusted
) -> int:
    """Print the effects of `file` in place of the policy file of its name; return 1 for errors in it.

    Raises:
        OperatorError: the file cannot be read, or its name is not valid for a policy file.
    """
    edit = PolicyEdit(file.name, None if remove else _text(file))
    tried = live.try_edit(edit, tools, trusted, beside_calls=False)
    for problem in tried.problems:
        say(problem)
    if tried.diff is None:
        say(f"{live.folder}: these files would not come into force.")
        return 1
    for line in lines(tried.diff):
        say(line)
    if not tools:
        say("No tools are known, so no decision could be compared. With --connect the servers are asked.")
    return 0


def lines(diff: PolicyDiff) -> list[str]:
    """Return a comparison as lines for a terminal: what makes a change, for whom, on what."""
    made = [f"agent {name} is new" for name in diff.appeared] + [f"agent {name} is gone" for name in diff.vanished]
    made = made if len(made) <= _GROUPS else [*made[:_GROUPS], f"and {len(made) - _GROUPS} more such agents"]
    for group in diff.groups[:_GROUPS]:
        made.append(f"{group.cause}: {group.before} -> {group.after}")
        made.append(f"  {_some(list(group.agents)[:_NAMES], len(group.agents))}: {_tools(diff, group)}")
    if len(diff.groups) > _GROUPS:
        made.append(f"and {len(diff.groups) - _GROUPS} more groups")
    made += [*map(str, diff.confirmers[:_GROUPS]), *diff.tokens[:_GROUPS]]
    if len(diff.tokens) > _GROUPS:
        made.append(f"and {len(diff.tokens) - _GROUPS} more changes of rules about tokens")
    made += diff.flow[:_GROUPS]
    if len(diff.flow) > _GROUPS:
        made.append(f"and {len(diff.flow) - _GROUPS} more changes of labels and flow rules")
    if diff.uncounted:
        made.append(f"{diff.uncounted} more agents with changed rules were not compared")
    return made or ["No decision changes."]


def _tools(diff: PolicyDiff, group: ChangeGroup) -> str:
    return _some(list(diff.names(group.tools, _NAMES)), group.tools.bit_count())


def _some(names: list[str], count: int) -> str:
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return ", ".join(names) + more


def _text(file: Path) -> str:
    try:
        return read_ordinary(file, LARGEST + 1).decode("utf-8-sig")
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise OperatorError(f"{file} is not UTF-8 text. Save it as UTF-8.") from None
