"""Descriptions of servers in the MCP Registry (server.json) turned into plans of entries.

Read are the versions from 2025-07-09 to 2025-12-11 and the draft after it
(https://github.com/modelcontextprotocol/registry, docs/reference/server-json); the first wrote `snake_case`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.config.servers.checks import address_fault
from aggregator.packages.errors import PackageError
from aggregator.packages.inputs import address_of, headers_of, objects, questions_of, text_of
from aggregator.packages.names import short_name
from aggregator.packages.plan import AskedValue, EntryPlan, Text, one_line
from aggregator.packages.programs import program_of

_HUMP: Final = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")
_DEEPEST: Final = 12
_TRANSPORTS: Final = {"streamable-http": "http", "streamable": "http", "http": "http", "sse": "sse"}
# The status that the official registry gives a server, beside its description.
OFFICIAL: Final = "io.modelcontextprotocol.registry/official"


@dataclass(frozen=True, slots=True)
class BundleReference:
    """An MCPB file that a description names: its address, and the digest that it must have."""

    url: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """One way to run or reach a server. `kind` is `npm`, `pypi`, `oci`, `nuget`, `mcpb` or `remote`.

    `plan` is None for a bundle, which has its own description.
    """

    kind: str
    shown: str
    plan: EntryPlan | None = None
    bundle: BundleReference | None = None


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """A server.json. `choices` are those that can be used, in its order; `refused` says why others cannot."""

    name: str
    version: str
    title: str
    description: str
    choices: tuple[ServerChoice, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_description(root: object, origin: str) -> ServerDescription:
    """Return the description in a server.json, or in the answer of a registry, which wraps one in `server`.

    Raises:
        PackageError: it is not a server.json, or it has nothing that can be used.
    """
    if not isinstance(root, Mapping):
        raise PackageError(f"{origin} is not a server.json: it is no JSON object.")
    meta = root.get("_meta")
    wrapped = root.get("server")
    detail = camel_case(wrapped if isinstance(wrapped, Mapping) else root)
    if not isinstance(detail, Mapping) or not (detail.get("packages") or detail.get("remotes")):
        raise PackageError(f"{origin} is not a server.json: it has neither `packages` nor `remotes`.")
    name = one_line(text_of(detail.get("name")), 200) or origin
    given = detail.get("versionDetail")
    version = text_of(detail.get("version")) or (text_of(given.get("version")) if isinstance(given, Mapping) else "")
    found = ServerDescription(
        name,
        one_line(version, 60),
        one_line(text_of(detail.get("title")), 100),
        one_line(text_of(detail.get("description"))),
        (),
        (),
        tuple(_status_notes(meta, detail)),
    )
    choices: list[ServerChoice] = []
    refused: list[str] = []
    for kind in ("packages", "remotes"):
        for at, item in enumerate(objects(detail.get(kind))):
            try:
                choices.append(_package(item, found) if kind == "packages" else _remote(item, found))
            except PackageError as error:
                refused.append(f"{kind}[{at}]: {error}")
    if not choices:
        why = " ".join(refused) or "Its packages and remotes are no objects."
        raise PackageError(f"{origin} has nothing that can be used here. {why}")
    return replace(found, choices=tuple(choices), refused=tuple(refused))


def camel_case(value: object, depth: int = 0) -> object:
    """Return a JSON value with keys such as `registry_type` written as `registryType`, but for names in `variables`."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        made: dict[str, object] = {}
        for key, item in value.items():
            name = _HUMP.sub(lambda hump: hump[1].upper(), key) if isinstance(key, str) else key
            if key == "variables" and isinstance(item, Mapping):
                made[name] = {one: camel_case(inner, depth + 2) for one, inner in item.items()}
            else:
                made.setdefault(name, camel_case(item, depth + 1))
        return made
    if isinstance(value, list):
        return [camel_case(item, depth + 1) for item in value]
    return value


def _status_notes(meta: object, detail: Mapping[str, Any]) -> Iterator[str]:
    official = meta.get(OFFICIAL) if isinstance(meta, Mapping) else None
    holder = official if isinstance(official, Mapping) else detail
    status = holder.get("status")
    if status in ("deprecated", "deleted"):
        said = one_line(text_of(holder.get("statusMessage")))
        yield f"The registry says that it is {status}{f': {said}' if said else '.'}"


def _package(item: Mapping[str, Any], server: ServerDescription) -> ServerChoice:
    kind = text_of(item.get("registryType")).lower()
    identifier = text_of(item.get("identifier")) or text_of(item.get("name"))
    if kind == "mcpb":
        digest = text_of(item.get("fileSha256")).lower() or None
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
            raise PackageError("its fileSha256 is no SHA-256 digest.")
        return ServerChoice("mcpb", one_line(identifier, 200), bundle=BundleReference(identifier, digest))
    made = program_of(kind, identifier, item)
    plan = EntryPlan(
        short_name(server.name),
        server.name,
        made.program,
        title=server.title,
        description=server.title or server.description,
        notes=(*server.notes, *made.notes),
        downloads=True,
    )
    transport = item.get("transport")
    spoken = text_of(transport.get("type")) if isinstance(transport, Mapping) else ""
    if spoken in ("", "stdio"):
        return ServerChoice(kind, made.shown, plan)
    assert isinstance(transport, Mapping)
    texts = [text for one in made.program.arguments for text in one.texts]
    by_name = {**questions_of([*made.program.env.values()]), **questions_of(texts)}
    return ServerChoice(kind, made.shown, _reached(plan, transport, by_name))


def _remote(item: Mapping[str, Any], server: ServerDescription) -> ServerChoice:
    plan = EntryPlan(
        short_name(server.name),
        server.name,
        title=server.title,
        description=server.title or server.description,
        notes=server.notes,
    )
    made = _reached(plan, item, {})
    return ServerChoice("remote", one_line(text_of(item.get("url")), 200), made)


def _reached(plan: EntryPlan, transport: Mapping[str, Any], also: Mapping[str, AskedValue]) -> EntryPlan:
    """Return a plan with the address of a transport."""
    spoken = text_of(transport.get("type")) or text_of(transport.get("transportType"))
    kind = _TRANSPORTS.get(spoken)
    if kind is None:
        raise PackageError(f"the transport {spoken!r:.40} is not known here.")
    url = address_of(text_of(transport.get("url")), transport.get("variables"), also)
    _check_address(url)
    headers = headers_of(transport.get("headers"))
    return replace(plan, url=url, type="sse" if kind == "sse" else "http", headers=headers)


def _check_address(url: Text) -> None:
    """Refuse an address that no answers make a usable one.

    Raises:
        PackageError: the address has no scheme that is spoken, or a user name in it.
    """
    if url and isinstance(url[0], AskedValue):
        return
    whole = "".join(part if isinstance(part, str) else "1" for part in url)
    fault = address_fault(whole)
    if fault is not None:
        raise PackageError(f"its address cannot be used. {fault}")
    if "@" in urlsplit(whole).netloc:
        raise PackageError("its address has a user name in it.")
