"""`python -m scripts.releasing.bundle`: make `aggregator.mcpb`, a bundle (MCPB) of this program, and `server.json`.

Hosts such as Claude Desktop install a bundle by a double click and show its settings as a form. Ours has the wheel; uv,
which those hosts bring, installs it with its dependencies. Formats: https://github.com/modelcontextprotocol/mcpb,
MANIFEST.md (0.4), and https://github.com/modelcontextprotocol/registry, docs/reference/server-json.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from time import gmtime
from typing import Any, Final
from urllib.parse import urlsplit

from scripts.releasing.texts import ReleaseFault, semantic_version, version_in

BUNDLE: Final = "aggregator.mcpb"
SERVER: Final = "server.json"
ENTRY_POINT: Final = "server/main.py"
_PARTS: Final = Path("deploy", "bundle")
_TITLE: Final = "aggregator"
# Extras whose packages have wheels for all three systems.
_EXTRAS: Final = ("code", "keyring")
_SYSTEMS: Final = ("darwin", "win32", "linux")
# Some of the tested versions have no wheel for Macs with an Intel processor, so those get the newest that has one.
_PINNED: Final = "sys_platform != 'darwin' or platform_machine != 'x86_64'"
_WHEELS_FOR: Final = (("darwin", "arm64"), ("darwin", "x86_64"), ("win32", "AMD64"), ("linux", "x86_64"))
_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
# A namespace that is never anyone's (RFC 2606), which the MCP Registry refuses.
_NO_NAMESPACE: Final = "invalid.example"
_LONGEST_DESCRIPTION: Final = 100
_EARLIEST: Final = 315_532_800  # 1980-01-01, the first time that a zip can hold
_LONG: Final = """\
All your MCP servers behind one: their tools under one roof, with policies, an audit log, and a search if they are many.

The first start makes a configuration without servers, if you have none, and logs its place. Then ask which servers
there are: the answer has the commands that take over the servers of Claude, Cursor and others, or add one.
"""
# The fields of the form are options of `aggregator stdio`; `aggregator.cli.first_run.bundle` reads the variables.
_VARIABLE: Final = "AGGREGATOR_BUNDLE_"
_FORM: Final[Mapping[str, Mapping[str, Any]]] = {
    "config": {
        "type": "file",
        "title": "Configuration file",
        "description": "The aggregator.json with your servers. Blank: your own file.",
    },
    "agent": {
        "type": "string",
        "title": "Agent",
        "description": "The agent whose policy applies. Blank: local.",
    },
    "expose": {
        "type": "string",
        "title": "Listed tools",
        "description": "all: every tool; search: a few tools to find the others with; auto: search if all would be "
        "many; code: search, and programs that call tools. Blank: as the configuration says.",
    },
}


def manifest(project: Mapping[str, Any], version: str, author: str) -> dict[str, Any]:
    """Return the manifest of the bundle. `project` is that of pyproject.toml."""
    environ = {f"{_VARIABLE}{field.upper()}": f"${{user_config.{field}}}" for field in _FORM}
    addresses = _addresses(project)
    return {
        "manifest_version": "0.4",
        "name": project["name"],
        "display_name": _TITLE,
        "version": semantic_version(version),
        "description": project["description"],
        "long_description": _LONG,
        "author": {"name": author},
        **addresses,
        "icon": "icon.png",
        "server": {
            "type": "uv",
            "entry_point": ENTRY_POINT,
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--quiet", "--directory", "${__dirname}", ENTRY_POINT],
                "env": environ,
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "keywords": project["keywords"],
        "license": project["license"],
        "compatibility": {"platforms": list(_SYSTEMS), "runtimes": {"python": _pythons(project)}},
        "user_config": {
            field: {**_FORM[field], "required": False, **({"default": ""} if _FORM[field]["type"] == "string" else {})}
            for field in _FORM
        },
    }


def requirements(project: Mapping[str, Any], version: str, wheel: str, tested: str) -> str:
    """Return the pyproject.toml of the bundle: the wheel, and dependencies in the versions of constraints.txt."""
    pins = [line.strip() for line in tested.splitlines() if "==" in line]
    systems = [f"platform_python_implementation == 'CPython' and sys_platform == '{one}'" for one in _SYSTEMS]
    needed = [f"sys_platform == '{system}' and platform_machine == '{machine}'" for system, machine in _WHEELS_FOR]
    return f"""\
[project]
name = "{project["name"]}-bundle"
version = "{version}"
requires-python = "{_pythons(project)}"
dependencies = ["{project["name"]}[{",".join(_EXTRAS)}]"]

[tool.uv]
package = false
no-build = true
environments = {json.dumps(systems)}
required-environments = {json.dumps(needed)}
constraint-dependencies = {json.dumps([f"{pin} ; {_PINNED}" for pin in pins], indent=2)}

[tool.uv.sources]
{project["name"]} = {{ path = "wheels/{wheel}" }}
"""


def server_json(project: Mapping[str, Any], version: str, bundle: bytes, name: str | None) -> dict[str, Any]:
    """Return the entry for the MCP Registry. `name`: as it has ours; None: from the address of the repository."""
    repository = _repository(project)
    described = project["description"]
    if len(described) > _LONGEST_DESCRIPTION:
        raise ReleaseFault(f"`description` in pyproject.toml has {len(described)} characters; the registry takes 100.")
    release = f"{repository}/releases/download/v{version}/{BUNDLE}" if repository else None
    transport = {"type": "stdio"}
    start: dict[str, Any] = {
        "runtimeHint": "uvx",
        "packageArguments": [
            {"type": "positional", "value": "stdio"},
            *({"type": "named", "name": f"--{field}", **_asked(field)} for field in _FORM),
        ],
    }
    packages = [
        {
            "registryType": "pypi",
            "identifier": project["name"],
            "version": version,
            "transport": transport,
            **start,
        }
    ]
    if release is not None:
        digest = hashlib.sha256(bundle).hexdigest()
        packages.append({"registryType": "mcpb", "identifier": release, "fileSha256": digest, "transport": transport})
    source = {"repository": {"url": repository, "source": _source(repository)}} if repository else {}
    return {
        "$schema": _SCHEMA,
        "name": name or registry_name(project) or f"{_NO_NAMESPACE}/{project['name']}",
        "title": _TITLE,
        "description": described,
        "version": semantic_version(version),
        **source,
        "packages": packages,
    }


def registry_name(project: Mapping[str, Any]) -> str | None:
    """Return the name in the MCP Registry that the owner of the repository may use; None without an address."""
    repository = _repository(project)
    if repository is None:
        return None
    host, path = urlsplit(repository).netloc, urlsplit(repository).path
    return f"io.{host.removesuffix('.com')}.{path.split('/')[1]}/{project['name']}"


def pack(root: Path, wheel: Path, folder: Path, stamp: int, name: str | None = None) -> list[Path]:
    """Write the bundle with a wheel of the tree at `root`, and `server.json`, into a folder.

    The same wheel and the same time (`stamp`, seconds since 1970) give the same bytes.

    Raises:
        ReleaseFault: the wheel is not of this version, or a text is not as the formats want it.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = version_in((root / "aggregator" / "__init__.py").read_text(encoding="utf-8"))
    if wheel.name.split("-")[1] != version:
        raise ReleaseFault(f"{wheel.name} is not of {version}: build it again.")
    licence = (root / "LICENSE").read_text(encoding="utf-8")
    described = manifest(project, version, _author(licence))
    tested = (root / "constraints.txt").read_text(encoding="utf-8")
    parts: dict[str, bytes] = {
        "manifest.json": _as_json(described),
        "pyproject.toml": requirements(project, version, wheel.name, tested).encode(),
        "LICENSE": licence.encode(),
        "icon.png": (root / _PARTS / "icon.png").read_bytes(),
        ENTRY_POINT: (root / _PARTS / "main.py").read_bytes(),
        f"wheels/{wheel.name}": wheel.read_bytes(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    bundle, entry = folder / BUNDLE, folder / SERVER
    _write_zip(bundle, parts, stamp)
    entry.write_bytes(_as_json(server_json(project, version, bundle.read_bytes(), name)))
    return [bundle, entry]


def _write_zip(path: Path, parts: Mapping[str, bytes], stamp: int) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, gmtime(max(stamp, _EARLIEST))[:6])
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            packed.writestr(entry, content)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _asked(field: str) -> dict[str, Any]:
    form = _FORM[field]
    return {"description": form["description"], **({"format": "filepath"} if form["type"] == "file" else {})}


def _pythons(project: Mapping[str, Any]) -> str:
    """Return the versions of Python that the tests were run with, the minor ones between them included."""
    known = re.findall(r":: 3\.(\d+)", "\n".join(project["classifiers"]))
    return f"{project['requires-python']},<3.{max(map(int, known)) + 1}"


def _author(licence: str) -> str:
    """Return who has the copyright, since pyproject.toml names no author."""
    found = re.search(r"^Copyright \(c\) [\d-]+ (.+)$", licence, re.MULTILINE)
    if found is None:
        raise ReleaseFault("LICENSE has no line `Copyright (c) YEAR NAME`, from which the bundle has its author.")
    return found[1].strip()


def _repository(project: Mapping[str, Any]) -> str | None:
    """Return the address of the repository, at a host whose releases the MCP Registry takes."""
    urls = {key.lower(): str(value) for key, value in project.get("urls", {}).items()}
    address = urls.get("repository", "").removesuffix("/").removesuffix(".git")
    return address if re.fullmatch(r"https://(?:github|gitlab)\.com/[\w.-]+/[\w.-]+", address) else None


def _source(repository: str) -> str:
    return urlsplit(repository).netloc.removesuffix(".com")


def _addresses(project: Mapping[str, Any]) -> dict[str, Any]:
    repository = _repository(project)
    if repository is None:
        return {}
    return {"repository": {"type": "git", "url": repository}, "support": f"{repository}/issues"}


def _built(root: Path, folder: Path, stamp: int) -> Path:
    """Build the wheel of the tree at `root`."""
    code = f"import hatchling.build as backend; print(backend.build_wheel({str(folder)!r}))"
    done = subprocess.run(  # noqa: S603 - the command is this module's own
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(stamp)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseFault(f"The wheel cannot be built:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return folder / done.stdout.split()[-1]


def main() -> int:
    """Make the bundle, or say in one sentence what is in its way."""
    parser = argparse.ArgumentParser(prog="scripts/bundle", description=__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel to pack; default: one built from this tree")
    parser.add_argument("--into", type=Path, default=Path("dist"), help="the folder for both files")
    parser.add_argument("--registry-name", help="our name in the MCP Registry, such as io.github.OWNER/aggregator-mcp")
    options = parser.parse_args()
    stamp = int(os.environ.get("SOURCE_DATE_EPOCH", _EARLIEST))
    try:
        with tempfile.TemporaryDirectory() as folder:
            wheel = options.wheel or _built(Path.cwd(), Path(folder), stamp)
            made = pack(Path.cwd(), wheel, options.into, stamp, options.registry_name)
    except ReleaseFault as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    print("\n".join(map(str, made)))
    if json.loads(made[1].read_bytes())["name"].startswith(_NO_NAMESPACE):
        print(
            f"{SERVER} has no name yet that the MCP Registry takes: give --registry-name, or write `Repository` into "
            "[project.urls] of pyproject.toml."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
