"""Holds the pages to each other and to the tree: links lead somewhere, paths exist, the index and the map are whole."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), ROOT / "benchmarks" / "README.md"]
# Pages in which paths of the tree stand in backquotes; in the glossary they are relative to the package.
WITH_PATHS: Final = {"CONTRIBUTING.md": ROOT, "development.md": ROOT, "architecture.md": ROOT}

# A key of `_meta`, not a path.
META_KEYS: Final = frozenset({"aggregator/error"})

_LINK: Final = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
_PATH: Final = re.compile(r"`((?:aggregator|tests|scripts|docs|benchmarks)/[\w./-]+)`")
_CODE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target, _, heading = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (heading and path.suffix == ".md" and heading not in anchors(path)):
            yield f"{page.relative_to(ROOT)}: {link}"


def test_links_lead_somewhere() -> None:
    assert not [broken for page in PAGES for broken in broken_links(page)]


def test_paths_of_the_tree_exist() -> None:
    pages = [page for page in PAGES if page.name in WITH_PATHS]
    assert len(pages) == len(WITH_PATHS)
    gone = [
        f"{page.name}: {path}"
        for page in pages
        for path in _PATH.findall(page.read_text(encoding="utf-8"))
        if "NAME" not in path
        and path not in META_KEYS
        and not (ROOT / path).exists()
        and not (ROOT / f"{path}.py").exists()
    ]
    assert not gone


def test_the_index_has_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(index)}
    assert not {page for page in DOCS.rglob("*.md") if page.name != "README.md"} - linked
    assert not {ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"} - linked


def test_the_map_has_every_package() -> None:
    tree = (DOCS / "development.md").read_text(encoding="utf-8")
    packages = {path.parent.relative_to(ROOT) for path in (ROOT / "aggregator").rglob("__init__.py")}
    missing = [
        str(package)
        for package in packages
        if len(package.parts) > 1
        and not re.search(rf"`(?:[\w/]+/)?{package.name}`", tree)
        and package.parts[-2] != "migrations"
    ]
    assert not missing
