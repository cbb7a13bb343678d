"""The command that runs a package of each kind: `npx`, `uvx`, `docker run`, `dnx`.

Law: the program is one of its kind's; a `runtimeHint` of another is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.packages.errors import PackageError
from aggregator.packages.inputs import arguments_of, text_of, variables_of
from aggregator.packages.names import checked_name, checked_version
from aggregator.packages.plan import PlannedArgument, PlannedProgram, Text

_RUNTIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "npm": ("npx", "bunx"),
    "pypi": ("uvx",),
    "oci": ("docker", "podman"),
    "nuget": ("dnx",),
}
# Addresses of the registries that each program asks by itself.
_USUAL: Final = frozenset(
    {"registry.npmjs.org", "pypi.org", "files.pythonhosted.org", "api.nuget.org", "docker.io", "index.docker.io"}
)
_INDEX_OPTION: Final = {"npm": "--registry", "pypi": "--default-index", "nuget": "--source"}
# Options of `docker run` that give the container something of this machine.
_OF_THIS_MACHINE: Final = (
    "-v",
    "--volume",
    "--volumes-from",
    "--mount",
    "--privileged",
    "--network",
    "--net",
    "--pid",
    "--ipc",
    "--uts",
    "--userns",
    "--cgroupns",
    "--device",
    "--gpus",
    "--cap-add",
    "--security-opt",
    "--env-file",
    "-p",
    "--publish",
    "-P",
    "--publish-all",
)


# Variables that make a program run something else.
_STEERING: Final = frozenset(
    {"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH"}
    | {"NODE_OPTIONS", "NODE_PATH", "BASH_ENV", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME"}
)


@dataclass(frozen=True, slots=True)
class PackageProgram:
    """The program of a package, the package's name for it, and hints for the user before it starts."""

    program: PlannedProgram
    shown: str
    notes: tuple[str, ...] = ()


def program_of(kind: str, identifier: str, item: Mapping[str, Any]) -> PackageProgram:
    """Return the program of a package; `item` is its object in a server.json, empty for a name alone.

    Raises:
        PackageError: packages of this kind cannot be run, or a name, a version or an address is none.
    """
    if kind not in _RUNTIMES:
        known = ", ".join((*_RUNTIMES, "mcpb"))
        raise PackageError(f"packages of {kind!r:.40} cannot be run here; those of {known} can.")
    notes: list[str] = []
    runtime, *_ = _RUNTIMES[kind]
    hint = text_of(item.get("runtimeHint"))
    if hint in _RUNTIMES[kind]:
        runtime = hint
    elif hint:
        notes.append(f"It asks for {hint!r:.40} as its program; {runtime} is used.")
    version = text_of(item.get("version"))
    version = "" if version in ("", "latest") else checked_version(version)
    index = _index(kind, text_of(item.get("registryBaseUrl")), notes)
    before = arguments_of(item.get("runtimeArguments"))
    after = arguments_of(item.get("packageArguments"))
    env = variables_of(item.get("environmentVariables"))
    notes += [f"It sets {name}, which can make programs run something else." for name in env if name in _STEERING]
    if kind == "oci":
        return _image(runtime, identifier, version, index, before, after, env, notes)
    checked_name(kind, identifier)
    package = f"{identifier}@{version}" if version else identifier
    options = [PlannedArgument(((f"{_INDEX_OPTION[kind]}={index}",),))] if index else []
    if kind == "nuget":
        rest = (*([PlannedArgument((("--",),))] if after else ()), *after)
        arguments = (_plain(package), _plain("--yes"), *options, *before, *rest)
    else:
        yes = [_plain("-y")] if runtime == "npx" and not _has(before, "-y", "--yes") else []
        arguments = (*yes, *options, *before, _plain(package), *after)
    return PackageProgram(PlannedProgram((runtime,), arguments, env), f"{kind}:{package}", tuple(notes))


def _image(
    runtime: str,
    identifier: str,
    version: str,
    index: str,
    before: tuple[PlannedArgument, ...],
    after: tuple[PlannedArgument, ...],
    env: Mapping[str, Text],
    notes: list[str],
) -> PackageProgram:
    named = identifier.rsplit("/", 1)[-1]
    image = identifier if not version or ":" in named or "@" in named else f"{identifier}:{version}"
    if index:
        image = f"{urlsplit(index).netloc}/{image}"
    checked_name("oci", image)
    # The values come from our own environment, so that none stands in the list of processes.
    passed = [PlannedArgument((("-e",), (name,))) for name in env]
    notes += [
        f"Its container gets something of this machine: {option}."
        for option in _OF_THIS_MACHINE
        if _has(before, option)
    ]
    usual = [_plain(option) for option in ("-i", "--rm") if not _has(before, option)]
    arguments = (_plain("run"), *usual, *passed, *before, _plain(image), *after)
    return PackageProgram(PlannedProgram((runtime,), arguments, env), f"oci:{image}", tuple(notes))


def _index(kind: str, address: str, notes: list[str]) -> str:
    """Return the address of a registry for the program's arguments, empty for its default."""
    if not address:
        return ""
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "https" or not parts.hostname or "@" in parts.netloc or not address.isprintable():
        raise PackageError("the address of its package registry cannot be used: it is not https://HOST.")
    if parts.hostname in _USUAL:
        return ""
    notes.append(f"Its package comes from the registry {parts.hostname}, not from the usual one.")
    return address


def _plain(text: str) -> PlannedArgument:
    return PlannedArgument(((text,),))


def _has(arguments: tuple[PlannedArgument, ...], *options: str) -> bool:
    """Tell whether one of the arguments is one of these options, alone or with a value after `=`."""
    firsts = (one.texts[0][0] for one in arguments if one.texts and one.texts[0])
    return any(isinstance(text, str) and text.partition("=")[0] in options for text in firsts)
