"""`python -m scripts.releasing VERSION`: make a release in this clone, or say what is in its way."""

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from scripts.releasing.bundle import BUNDLE, SERVER, pack
from scripts.releasing.texts import ReleaseFault, check_next, released, tag, version_in, with_version

ROOT: Final = Path.cwd()
_PACKAGE: Final = Path("aggregator/__init__.py")
_CHANGELOG: Final = Path("CHANGELOG.md")
_NOT_YET: Final = "No public address of the project is decided: [project.urls] in pyproject.toml is empty."


def _run(*command: str | Path, folder: Path = ROOT, **environ: str) -> str:
    """Run a program, and return what it printed.

    Raises:
        ReleaseFault: it failed; the text has its last words.
    """
    done = subprocess.run(  # noqa: S603 - the commands are this module's own
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseFault(f"{command[0]} {command[1]} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def _check_tree(tested: bool) -> None:
    """Refuse changes that are not committed, and a commit that was not tested.

    Raises:
        ReleaseFault: one of both.
    """
    changed = _run("git", "status", "--porcelain").splitlines()
    if changed:
        raise ReleaseFault(f"{len(changed)} files are not as committed, such as {changed[0][3:]}: commit them first.")
    if not tested:
        raise ReleaseFault("Run `.ci/run` and `scripts/coverage` on this commit, and then this with --tested.")


def _built(version: str, python: str) -> list[Path]:
    """Build both distributions and the bundle from a clone of the tag, and check them; return the distributions.

    The times in them are those of the commit, so that the same tag gives the same bytes.
    """
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    stamp = _run("git", "log", "-1", "--format=%ct", tag(version)).strip()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        _run("git", "clone", "--quiet", "--branch", tag(version), "--depth", "1", ROOT.as_uri(), source)
        _run(python, "-m", "build", "--outdir", target, source, SOURCE_DATE_EPOCH=stamp)
        files = sorted(target.glob(f"*-{version}[-.]*"))
        if len(files) != 2:
            raise ReleaseFault(f"dist holds {len(files)} files of {version}, not two: empty it, and build again.")
        pack(source, _wheel(files), target, int(stamp))
    _run(python, "-m", "twine", "check", "--strict", *files)
    return files


def _wheel(files: list[Path]) -> Path:
    return next(file for file in files if file.suffix == ".whl")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--tested", action="store_true", help="`.ci/run` and `scripts/coverage` passed on this commit")
    return parser.parse_args()


def _release(options: argparse.Namespace, python: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text, changelog = _PACKAGE.read_text(encoding="utf-8"), _CHANGELOG.read_text(encoding="utf-8")
    version = options.version
    check_next(version, version_in(text), _run("git", "tag", "--list").split())
    changed, notes = released(changelog, version, datetime.datetime.now(datetime.UTC).date().isoformat())
    if not project.get("urls"):
        print(_NOT_YET)
    if options.dry_run:
        print(f"It would write {version} into {_PACKAGE} and {_CHANGELOG}, commit, tag {tag(version)} and build.\n")
        print(notes, end="")
    _check_tree(options.tested or options.dry_run)
    if options.dry_run:
        return
    _PACKAGE.write_text(with_version(text, version), encoding="utf-8")
    _CHANGELOG.write_text(changed, encoding="utf-8")
    _run("git", "commit", "--quiet", "--message", f"Release {version}", "--", _PACKAGE, _CHANGELOG)
    _run("git", "tag", "--annotate", tag(version), "--message", f"Release {version}\n\n{notes}")
    files = _built(version, python)
    names = " ".join(f"dist/{file.name}" for file in files)
    print(f"""{tag(version)} is made on this machine. What is left:
  1. look at it:             git show {tag(version)}
  2. try what was built:     sh scripts/try-hosts --wheel dist/{_wheel(files).name}
                             sh scripts/bundle --wheel dist/{_wheel(files).name}
  3. is the name still ours: {python} -m pip index versions {project["name"]}
  4. push it:                git push --follow-tags
  5. upload it:              {python} -m twine upload {names}
                             dist/{BUNDLE} to the release of the tag; dist/{SERVER} with mcp-publisher
To take it back before 4:    git tag --delete {tag(version)} && git reset --hard HEAD~1""")


def main() -> int:
    """Make the release, or say in one sentence what is in its way."""
    options = _options()
    try:
        _release(options, os.environ.get("RELEASE_PYTHON", sys.executable))
    except ReleaseFault as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
