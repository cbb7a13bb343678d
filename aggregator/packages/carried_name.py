"""The MCP Registry name in an npm or PyPI package, which leads to its description.

npm packages have it as `mcpName` in package.json, PyPI packages as `mcp-name: ...` in their description
(https://github.com/modelcontextprotocol/registry, docs/reference/server-json/official-registry-requirements.md).
"""

import json
import os
import re
import shutil
import subprocess
from typing import Any, Final

from aggregator.packages.download import DownloadLimits, download, is_loopback
from aggregator.packages.errors import PackageError
from aggregator.packages.names import is_registry_name
from aggregator.system.program_words import program_words

PYPI: Final = "https://pypi.org"
_NPM_SECONDS: Final = 20.0
_PYPI_SECONDS: Final = 5.0
_PYPI_SIZE: Final = 16 * 2**20
_IN_TEXT: Final = re.compile(r"mcp-name:\s*([A-Za-z0-9.-]+/[A-Za-z0-9._-]+)")


def npm_name(package: str, version: str) -> str | None:
    """Return the registry name in an npm package, from `npm`; None if unknown or absent.

    Raises:
        PackageError: npm has no such package, or not in this version.
    """
    npm = shutil.which("npm")
    if npm is None:
        return None
    wanted = f"{package}@{version}" if version else package
    try:
        # `npm view` reads the registry's data about a package, and runs nothing of it. A registry chose the version,
        # and npm is a batch file on Windows.
        done = subprocess.run(  # noqa: S603 - the name was checked to be no option
            program_words(npm, ["view", wanted, "name", "mcpName", "--json"], os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_NPM_SECONDS,
            check=False,
        )
        told = json.loads(done.stdout or b"null")
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError):
        return None
    found = told[-1] if isinstance(told, list) and told else told
    error = found.get("error") if isinstance(found, dict) else None
    if (isinstance(error, dict) and error.get("code") == "E404") or (done.returncode == 0 and told is None):
        raise PackageError(f"npm has no package {wanted}. Is its name right?")
    return _checked(found.get("mcpName") if isinstance(found, dict) else None)


async def pypi_name(package: str, index: str = PYPI) -> str | None:
    """Return the registry name in a PyPI package; None if unknown or absent."""
    limits = DownloadLimits(_PYPI_SIZE, _PYPI_SECONDS, loopback=is_loopback(index))
    try:
        answer = await download(f"{index}/pypi/{package.partition('[')[0]}/json", limits, "PyPI")
        root: Any = json.loads(answer.body) if answer.status == 200 else None
    except (PackageError, ValueError, RecursionError):
        return None
    info = root.get("info") if isinstance(root, dict) else None
    description = info.get("description") if isinstance(info, dict) else None
    found = _IN_TEXT.search(description) if isinstance(description, str) else None
    return _checked(found[1].rstrip(".") if found else None)


def _checked(name: object) -> str | None:
    return name if isinstance(name, str) and is_registry_name(name) else None
