"""The tables of hosts in docs/hosts-and-servers.md, made from what the program knows: their files, and their limits.

`python -m tests.hosts.host_table` writes it anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aggregator.dialects.names import dialect_of
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import HostFile, HostProgram, Machine, System

PAGE: Final = Path(__file__).parents[2] / "docs" / "hosts-and-servers.md"
BEGIN: Final = "<!-- hosts: begin -->\n"
END: Final = "<!-- hosts: end -->\n"
LIMITS_BEGIN: Final = "<!-- host limits: begin -->\n"
LIMITS_END: Final = "<!-- host limits: end -->\n"
_HOME: Final = Path("/home-of-the-user")
_FOLDER: Final = Path("/working-folder")
_ROAMING: Final = Path("/roaming")


def host_table() -> str:
    """Return the table, one row for each host."""
    rows = ["| host | files, the user's first | supports |", "| --- | --- | --- |"]
    rows += [f"| [{host.title}]({host.source})<br>`{host.id}` | {_files(host)} | {_takes(host)} |" for host in HOSTS]
    return "\n".join(rows) + "\n"


def limits_table() -> str:
    """Return the table of limits, one row for each host of which any is known."""
    rows = [
        "| host | `clientInfo` | names of tools | most tools | dialect | declares | where it shows a failed start |"
    ]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for host in HOSTS:
        limits = host.limits
        client = "" if limits.client is None else f"`{limits.client}`"
        dialect = dialect_of({"name": limits.client})
        words = [*(["no dot"] if limits.plain else []), *([f"{limits.longest} characters"] if limits.longest else [])]
        if limits.prefix:
            words.append(f"prefix `{limits.prefix.replace('{}', 'aggregator')}`")
        most = "" if limits.tools is None else str(limits.tools)
        known = "" if limits.client is None else f"`{dialect}`"
        asked = "" if limits.declares is None else ", ".join(limits.declares) or "nothing"
        rows.append(f"| {host.title} | {client} | {', '.join(words)} | {most} | {known} | {asked} | {host.errors} |")
    return "\n".join(rows) + "\n"


def _takes(host: HostProgram) -> str:
    words = {"stdio": "programs", "http": "HTTP", "sse": "SSE"}
    return ", ".join(words[spoken] for spoken in host.speaks)


def _files(host: HostProgram) -> str:
    if host.paste is not None:
        return "none that can be written: `aggregator install` prints what to paste"
    by_system = {system: list(_written(host, system)) for system in ("linux", "macos", "windows")}
    everywhere = [path for path in by_system["linux"] if all(path in paths for paths in by_system.values())]
    parts = [", ".join(everywhere)] if everywhere else []
    names = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}
    for system, paths in by_system.items():
        own = [path for path in paths if path not in everywhere]
        if own:
            parts.append(f"{names[system]}: {', '.join(own)}")
    return "<br>".join(parts)


def _written(host: HostProgram, system: System) -> Iterator[str]:
    environ = {"APPDATA": str(_ROAMING)} if system == "windows" else {}
    files = host.files(Machine(system, _HOME, environ, _FOLDER))
    order = ("user", "profile", "local", "project", "managed")
    seen: set[str] = set()
    for file in sorted(files, key=lambda file: order.index(file.scope)):
        text = _path(file, system)
        if text not in seen:
            seen.add(text)
            yield text


def _path(file: HostFile, system: System) -> str:
    path = file.path.as_posix()
    path = path.replace(_HOME.as_posix(), "~").replace(_ROAMING.as_posix(), "%APPDATA%")
    path = path.replace(f"{_FOLDER.as_posix()}/", "")
    if "globalStorage" in path:  # one and the same in every editor
        path = re.sub(r"(?<=/)(Code|Code - Insiders|Cursor|Windsurf|VSCodium)(?=/User/)", "EDITOR", path)
        path = re.sub(r"/\.(vscode|vscode-insiders|cursor|windsurf)-server(-insiders)?/", "/.EDITOR-server/", path)
    if system == "windows" and not path.startswith((".", "~/.")):
        path = path.replace("~/AppData/Local", "%LOCALAPPDATA%").replace("/", "\\")
    return f"`{path}`"


def with_table(page: str) -> str:
    """Return the page with the tables as they are now."""
    for begin, table, end in ((BEGIN, host_table(), END), (LIMITS_BEGIN, limits_table(), LIMITS_END)):
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{table}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
