"""Skills for models by the meta tools: lines and entries in text, and the files of a skill by `call_tool`.

Law: a file comes by `resources/read` of its URI, ruled on, confirmed, compared and recorded as for a host, and says in
its first line which server wrote it.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aggregator.catalog.describe.levels import level1
from aggregator.domain.call import ToolCall
from aggregator.domain.errors import ERROR_META_KEY, BadArguments, NotServed, UpstreamError, to_tool_result
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.domain.text.cut import quoted
from aggregator.domain.text.tokens import fit
from aggregator.domain.uris.exposed import with_server
from aggregator.domain.uris.spellings import fault
from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.host import Host
from aggregator.gateway.request import Request
from aggregator.gateway.views.views import View
from aggregator.policy.limits import Limits
from aggregator.results.gateway.showing import LargeResults
from aggregator.skills.catalog import manifest
from aggregator.skills.finder import FILE, full_name
from aggregator.skills.uris import SKILL_FILE
from aggregator.wire.peer import Channel

_READ: Final = "resources/read"
# What of a call goes on to the read: answers of a host to the question of a read, and its meta.
_PASSED: Final = ("_meta", "inputResponses", "requestState")
# Files that are named in an answer.
_SHOWN: Final = 40
_LONGEST: Final = 500
HOW: Final = "Skills are instructions of a server; read one by call_tool with its name, and a `file` of it:"


class ReadsOnRecord(Protocol):
    """The methods that read from an upstream, each with its record."""

    def answer(self, method: str, request: Request, /) -> Awaitable[dict[str, Any]]: ...


class SkillReader:
    """The reading of a skill's files for a model."""

    def __init__(self, reads: ReadsOnRecord, input_requests: InputRequests, large_results: LargeResults) -> None:
        self._reads = reads
        self._input_requests = input_requests
        self._large_results = large_results

    async def read(self, skill: ItemRecord, call: ToolCall, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """Return a file of a skill as the result of a call.

        Raises:
            BadArguments: it has no such file.
            RpcError: the answer of its server to the read, or the aggregator ends.
        """
        path, uri = _file(skill, call.arguments)
        params: dict[str, Any] = {key: call.params[key] for key in _PASSED if key in call.params}
        params["uri"] = with_server(skill.prefix, uri)
        try:
            result = await self._reads.answer(_READ, Request(host, params, channel, call.version, self._input_requests))
        except NotServed as error:
            details = {"code": error.word, "message": error.message, **(error.data or {})}
            return {
                "content": [{"type": "text", "text": error.message}],
                "isError": True,
                "_meta": {ERROR_META_KEY: details},
            }
        except UpstreamError as error:
            return to_tool_result(error)
        if not is_complete(result):
            return result
        shown = {"content": [_tag(skill, path), *map(_block, result["contents"])]}
        labels = view.file_labels(skill, uri)
        return await self._large_results.fitted(
            shown, Limits(), call.principal, None, keeps_structured=False, links=False, labels=labels
        )


def _file(skill: ItemRecord, arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the path of the file that a call asks for, and its URI, as its server has it.

    Raises:
        BadArguments: it has no such file, or the path leads elsewhere.
    """
    name = full_name(skill)
    unknown = [key for key in arguments if key != FILE]
    path = arguments.get(FILE, SKILL_FILE)
    if unknown or not isinstance(path, str):
        raise BadArguments(name, f"{name} is a skill: it takes `{FILE}` alone, a path like {SKILL_FILE}.")
    path = path.removeprefix("./")
    root = skill.own_name.removesuffix(SKILL_FILE)
    files = manifest(skill.definition)
    if files is None:
        uri = root + path
        wrong = "it is no path" if not path or path.startswith("/") or "://" in path else fault(uri)
        if wrong is not None:
            raise BadArguments(name, f"{quoted(path)} is no file of {name}: {wrong}.")
        return path, uri
    paths = {one.removeprefix(root): one for one in files}
    found = paths.get(path) or next((uri for one, uri in paths.items() if unquote(one) == path), None)
    if found is None:
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        raise BadArguments(name, f"{name} has no file {quoted(path)}. It has {', '.join([*paths][:_SHOWN])}{more}.")
    return found.removeprefix(root), found


def _tag(skill: ItemRecord, path: str) -> dict[str, str]:
    server = skill.prefix or skill.server
    said = f"[{path} of {full_name(skill)}, written by server {server}, not by the person you work for]"
    return {"type": "text", "text": said}


def _block(content: Any) -> dict[str, Any]:
    """Return a part of a resource as a block of content: text as text, and bytes as an embedded resource."""
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {"type": "text", "text": content["text"]}
    return {"type": "resource", "resource": content}


def skill_lines(skills: list[ToolRecord], left_out: int, max_tokens: int | None) -> list[str]:
    """Return lines about skills for a model, as many as so many tokens hold; none without a skill."""
    lines = [HOW, *map(level1, skills)]
    kept = list(lines if max_tokens is None else fit(lines, max(0, max_tokens)).items)
    if len(kept) < 2:
        return []
    more = left_out + len(lines) - len(kept)
    return [*kept, *([f"+{more} more skills: search with words"] if more else [])]


def described(skill: ItemRecord) -> dict[str, Any]:
    """Return the entry of a skill for a model: its frontmatter, and the paths and sizes of its files."""
    root = skill.own_name.removesuffix(SKILL_FILE)
    files = manifest(skill.definition)
    shown: Any = "made when they are read"
    if files is not None:
        shown = {file.uri.removeprefix(root): file.size for file in [*files.values()][:_LONGEST]}
    return {
        "name": full_name(skill),
        "server": skill.prefix or skill.server,
        "uri": skill.listed["canonical"],
        "frontmatter": skill.definition["frontmatter"],
        "files": shown,
        "read": f"call_tool with this name; argument {FILE}, {SKILL_FILE} without it",
    }
