"""The tests that stand on the changed files, for `scripts/check`: `python -m tests.changed` prints their paths.

Changed is what differs from the branch `main`, committed or not. Of an area of the package (tests/mutate_areas.py) its
nearest tests run, of a changed helper of tests its folder. The journeys of a call run with every change of the package.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.lanes import is_long
from tests.mutate_areas import AREAS

ROOT: Final = Path(__file__).resolve().parents[1]
# Over every frontend, revision and transport: what a call carries, `/v1`, and the tools of the aggregator itself.
JOURNEYS: Final = ("tests/passthrough/test_matrix.py", "tests/end_to_end/test_matrix.py", "tests/v1", "tests/meta")
LAWS: Final = tuple(sorted(f"tests/{path.name}" for path in Path(__file__).parent.glob("test_*.py")))


def paths_for(changed: Iterable[str]) -> list[str]:
    """Return the files and folders of tests that stand on these files, none inside of another."""
    found = set(LAWS)
    for path in changed:
        found.update(_nearest(path))
        if path.startswith("aggregator/"):
            found.update(JOURNEYS)
        elif path.startswith("tests/") and path.count("/") > 1 and path.endswith(".py"):
            found.add(path if Path(path).name.startswith("test_") else str(Path(path).parent))
    kept = {path for path in found if (ROOT / path).exists() and not _is_elsewhere(path)}
    return sorted(path for path in kept if not any(path.startswith(f"{other}/") for other in kept))


def _nearest(path: str) -> list[str]:
    areas = [
        (len(code), area.tests)
        for area in AREAS.values()
        for code in area.code
        if path == code or path.startswith(f"{code}/")
    ]
    return [test for test in max(areas)[1] if not _is_elsewhere(test)][:1] if areas else []


def _is_elsewhere(path: str) -> bool:
    below = path.removeprefix("tests/")
    return is_long(below) or is_long(f"{below}/")


def changed_files() -> set[str]:
    """Return the files that differ from `main`, and those that git does not know yet."""
    base = subprocess.run(["git", "merge-base", "HEAD", "main"], cwd=ROOT, capture_output=True, text=True, check=False)
    commands = (
        ["git", "diff", "--name-only", base.stdout.strip() or "HEAD"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    return {
        line
        for command in commands
        for line in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    }


if __name__ == "__main__":
    print(*paths_for(changed_files()), sep="\n")
