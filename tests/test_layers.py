"""Holds every module to the plan in `aggregator.LAYERS` and to the laws of the tree, by reading the source.

Rule 1: a module imports its own package and layers below; never a neighbour on the same layer, never upwards. Inside a
package that has packages in it, `aggregator.INNER_LAYERS` says the same of its parts. A part of a feature counts as
the package or module that `aggregator.FEATURES` names for it.
Rule 2: modules named in strings (`package.module:name`, loaded when needed) are imports like any other.

Nothing of the package is run but in the last test. `python -m tests.test_layers [PACKAGE ...]` prints which part of a
package imports which.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from aggregator import FEATURES, INNER_LAYERS, LAYERS
from tests.source_trees import parsed

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "aggregator"

# Alembic loads what is in here, by its own rules.
LOADED_BY_ALEMBIC: Final = "storage.migrations"
# `python -m aggregator` stands above all layers.
ENTRY_POINT: Final = f"{PACKAGE}.__main__"

# The imports inside functions, each with its reason. A slow one is measured: milliseconds of every start without it.
INSIDE_FUNCTIONS: Final = {
    ("aggregator.cli.runtime.running", "asyncio"): "the supervisor of workers loads no event loop",
    ("aggregator.cli.runtime.running", "aggregator.domain.bounds.ticks"): "it loads asyncio; see above",
    ("aggregator.storage.engine.lockfile", "asyncio"): "the supervisor of workers loads no event loop",
    ("aggregator.config.files.private_file", "tempfile"): "the supervisor of workers writes no such file",
    ("aggregator.cli", "aggregator.cli.commands"): "importing the package must not load the command line",
    ("aggregator.cli", "aggregator.cli.first_run.complete"): "only when a shell asks",
    ("aggregator.cli", "aggregator.cli.plain_options"): "importing the package must not load the command line",
    ("aggregator.cli", "aggregator.cli.serve"): "only for this command, and without typer: 30 ms, 4 MiB",
    ("aggregator.cli", "aggregator.cli.workers"): "only for this command, without the gateway: 60 MiB",
    ("aggregator.cli.workers", "aggregator.cli.serve"): "only where there is one worker: 60 MiB of a supervisor",
    ("aggregator.workers.worker", "ctypes"): "5 ms, 1 MiB; only in a worker",
    ("aggregator.storage.engine.change_mark", "ctypes"): "5 ms, 1 MiB; only with flow rules, and not in every Python",
    ("aggregator.cli", "aggregator.cli.stdio"): "only for this command, and without typer: 30 ms",
    ("aggregator.cli.commands", "aggregator.domain.errors"): "5 ms; only when a command fails",
    ("aggregator.cli.runtime.progress", "aggregator.cli.runtime.progress_table"): "rich, 40 ms; only at a terminal",
    ("aggregator.cli.runtime.run_command", "aggregator.cli.runtime.setup"): "60 ms of `--help`",
    ("aggregator.cli.runtime.writer", "aggregator.domain.text.invisible"): "5 ms; only where something is not seen",
    ("aggregator.cli.runtime.run_command", "aggregator.domain.errors"): "5 ms; only when an argument is no text",
    ("aggregator.cli.first_run.bundle", "aggregator.cli.servers.edit"): "20 ms; only where there is no configuration",
    ("aggregator.cli.first_run.complete", "aggregator.editing.edited_file"): "20 ms; only for names of agents",
    ("aggregator.cli.first_run.complete", "aggregator.hosts.every_host"): "only for names of hosts",
    ("aggregator.cli.runtime.event_loop", "uvloop"): "an optional dependency",
    ("aggregator.storage.engine.engine", "sqlalchemy.dialects"): "2 MiB; only with PostgreSQL",
    ("aggregator.cli.secrets.store", "keyring"): "an optional dependency",
    ("aggregator.secret_sources.keyring_program", "keyring"): "an optional dependency",
    ("aggregator.secret_sources.keyring_program", "keyring.backends"): "an optional dependency",
    ("aggregator.secret_sources.keyring_program", "keyring.errors"): "an optional dependency",
    ("aggregator.cli.stdio", "aggregator.app.policies"): "30 ms; only where there are policy files",
    ("aggregator.cli.stdio", "aggregator.cli.stdio_session"): "100 ms; after the first answer",
    ("aggregator.config.files.jsonfile", "aggregator.editing.json_scan"): "2 ms; only where a file has comments",
    ("aggregator.config.files.report", "difflib"): "only when something is wrong: every start would pay for it",
    ("aggregator.schemas.wording", "difflib"): "for faults only",
    ("aggregator.frontends.web.address_wishes", "difflib"): "for wrong addresses only",
    ("aggregator.editing.open_document", "aggregator.editing.toml_document"): "tomlkit, 20 ms; only for TOML",
    ("aggregator.frontends.v1.routes", "aggregator.frontends.v1.list_tools"): "45 ms; in a thread",
    ("aggregator.frontends.console.entry", "aggregator.frontends.console.console"): "templates; in a thread",
    ("aggregator.accounts.connect.entry", "aggregator.accounts.connect.pages"): "templates; in a thread",
    ("aggregator.accounts.cli.commands", "aggregator.accounts.cli.connect"): "only for this command",
    ("aggregator.accounts.cli.commands", "aggregator.accounts.cli.accounts"): "only for this command",
    **{
        ("aggregator.gateway.meta.registry", f"aggregator.gateway.meta.{name}"): "50 ms together; in a thread"
        for name in ("call_tool", "describe_tools", "list_servers", "search_tools")
    },
    ("aggregator.gateway.meta.registry", "aggregator.intent.meta_tool"): "50 ms with the others; in a thread",
    ("aggregator.gateway.meta.registry", "aggregator.tool_reports.meta_tool"): "50 ms with the others; in a thread",
    ("aggregator.gateway.dotless_hosts", "aggregator.hosts.every_host"): "20 ms, with every first answer over stdio",
    ("aggregator.hosts.parse", "aggregator.hosts.yaml_values"): "PyYAML, which the first answer over stdio waits for",
    ("aggregator.skills.files", "aggregator.policy.files.yamltree"): "10 ms; in a thread",
    ("aggregator.results.gateway.keeper", "aggregator.results.gateway.sealing"): "cryptography, 50 ms; in a thread",
    ("aggregator.gateway.meta.registry", "aggregator.code.meta_tool"): "only where `expose: code` is set",
    ("aggregator.code.sandbox.sandbox", "aggregator.code.sandbox.code_run"): "an optional dependency; in a thread",
    ("aggregator.code.sandbox.sandbox", "aggregator.code.sandbox.reading"): "15 ms; with the module above",
    ("aggregator.app.policies", "aggregator.schemas.check"): "5 ms; only where a policy file has a schema",
    ("aggregator.schemas.checks", "aggregator.schemas.check"): "5 ms; in a thread",
    ("aggregator.skills.finder", "aggregator.catalog.search.index"): "13 ms; in a thread",
    ("aggregator.skills.finder", "aggregator.catalog.search.relevance"): "13 ms with the index; on demand",
    ("aggregator.gateway.views.finder", "aggregator.intent.match.intent"): "37 ms; in a thread",
    ("aggregator.gateway.meta.search_tools", "aggregator.catalog.search.relevance"): "3 MiB; only for a search",
    ("aggregator.intent.meta_tool", "aggregator.intent.match.intent"): "4 MiB; only for a message",
    ("aggregator.gateway.views.finder", "aggregator.catalog.search.index"): "13 ms; in a thread",
    ("aggregator.gateway.views.finder", "aggregator.catalog.search.relevance"): "13 ms with the index; on demand",
    ("aggregator.gateway.views.tool_index", "aggregator.catalog.search.index"): "13 ms; in a thread",
    ("aggregator.gateway.views.tool_index", "aggregator.catalog.search.relevance"): "13 ms with the index; in a thread",
    ("aggregator.gateway.views.finder", "aggregator.catalog.search.explain"): "13 ms with the index; on demand",
    ("aggregator.gateway.views.embeddings", "aggregator.catalog.search.relevance"): "13 ms with the index; in a thread",
    ("aggregator.gateway.views.finder", "aggregator.catalog.search.destructive"): "13 ms with the index; in a thread",
    ("aggregator.gateway.browse", "aggregator.gateway.meta.rendering"): "10 ms; in a thread",
    ("aggregator.gateway.views.instructions", "aggregator.domain.text.tokens"): "7 ms; only for a long text",
    **{
        ("aggregator.catalog.search.semantic.installed", f"aggregator.catalog.search.semantic.{name}"): "numpy"
        for name in ("encoder", "multilingual")
    },
    **{
        (f"aggregator.gateway.views.{module}", f"aggregator.catalog.search.semantic.{name}"): "only with the extra"
        for module, name in (
            ("finder", "installed"),
            ("finder", "merge"),
            ("embeddings", "installed"),
            ("embeddings", "merge"),
            ("embeddings", "texts"),
            ("model_vectors", "index"),
            ("model_vectors", "installed"),
            ("model_vectors", "spoken"),
        )
    },
    ("aggregator.policy.live", "aggregator.policy.files.checking"): "14 ms; only where there are policy files",
    ("aggregator.gateway.access", "aggregator.identity.tokens.verifier"): "PyJWT, 90 ms; only where there are issuers",
    (
        "aggregator.accounts.oauth.token_requests",
        "aggregator.accounts.oauth.signing",
    ): "PyJWT, 60 ms; only with a private key",
    (
        "aggregator.accounts.oauth.fetch",
        "aggregator.accounts.oauth.pinned",
    ): "aiohttp, 100 ms; only with the first fetch",
    ("aggregator.replicas.group.hop_client", "aiohttp"): "100 ms; only with the first hop",
    ("aggregator.storage.database", "aggregator.storage.opening"): "SQLAlchemy, 180 ms; in a thread",
    ("aggregator.storage.opening", "aggregator.storage.engine.migrate"): "Alembic, 120 ms; only for a new schema",
    ("aggregator.telemetry.spans", "aggregator.telemetry.otlp"): "an optional dependency: the OpenTelemetry SDK",
}
# Modules whose functions are commands: each imports what it runs, so that `--help` imports none of it.
COMMANDS: Final = (
    "aggregator.cli.commands",
    "aggregator.cli.audit.commands",
    "aggregator.cli.doctor.commands",
    "aggregator.cli.first_run.commands",
    "aggregator.cli.hosts.commands",
    "aggregator.flow.cli.commands",
    "aggregator.notify.cli.commands",
    "aggregator.pins.cli.commands",
    "aggregator.cli.policy.commands",
    "aggregator.cli.secrets.commands",
    "aggregator.cli.servers.commands",
    "aggregator.cli.store.commands",
    "aggregator.tool_reports.cli.commands",
)
# What `--help` and the stdio handshake must not wait for.
HEAVY: Final = ("mcp", "uvicorn", "starlette", "aiohttp")

# Tasks are started in one place, where each has an owner. Elsewhere only what is awaited where it was made.
TASKS: Final = "aggregator.domain.bounds.tasks"
TASKS_OF_THEIR_OWN: Final = {
    "aggregator.app.key_sync": "awaited by `learn`, shielded from its time limit; `follow` goes on with it",
    "aggregator.audit.writer": "awaited, shielded: an end in the middle does not throw away an open database",
    "aggregator.upstream.process.process": "a child is stopped to the end, even where the wait for it is cancelled",
}

# The methods of an upstream by which requests of hosts are sent, and the only module of the gateway that calls each.
ONE_SENDER: Final = {"call": "aggregator.gateway.calls.relay", "begin": "aggregator.gateway.calls.direct"}
# A type that proves a step was taken, and the one module that may say so.
ONE_MAKER: Final = {"Permitted": "aggregator.gateway.calls.pipeline", "Checked": "aggregator.gateway.calls.pipeline"}

# What decides: its docstring says `This file decides`. These must, others may.
DECIDERS: Final = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        "upstream.lifecycle.states",
        "upstream.lifecycle.backoff",
        "upstream.lifecycle.failures",
        "upstream.health.circuit_breaker",
        "catalog.difference",
        "config.difference",
        "domain.bounds.token_bucket",
    )
)
_WAITS: Final = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
_CLOCKS: Final = frozenset({"asyncio", "anyio", "time", "datetime", "threading"})

_IN_STRING: Final = re.compile(rf"({PACKAGE}(?:\.\w+)+):(\w+)")


@dataclass(frozen=True)
class Import:
    """The target of one import, by full module name where it is one of ours; `place` is `file:line`."""

    target: str
    place: str
    in_function: bool
    by_string: bool = False


@dataclass(frozen=True)
class Module:
    """A file of the package; a package goes by its own name, without `__init__`."""

    name: str
    path: Path

    @property
    def tree(self) -> ast.Module:
        return parsed(self.path)

    def place(self, line: int = 1) -> str:
        """Return a place in this file as editors and terminals follow it."""
        return f"{self.path.relative_to(ROOT)}:{line}"


def _modules() -> dict[str, Module]:
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = (".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files)
    return {name: Module(name, path) for name, path in zip(names, files, strict=True)}


MODULES: Final = _modules()
# The packages of features hold parts only, each with a place of its own in the plan.
_HOLDERS: Final = {PACKAGE, *(f"{PACKAGE}.{feature}" for feature in FEATURES)} | {
    f"{PACKAGE}.{feature}.{part.rpartition('.')[0]}"
    for feature, parts in FEATURES.items()
    for part in parts
    if "." in part
}
OURS: Final = [module for module in MODULES.values() if module.name not in _HOLDERS]
_PLACES: Final = {
    f"{PACKAGE}.{feature}.{part}": f"{PACKAGE}.{place}"
    for feature, parts in FEATURES.items()
    for part, place in parts.items()
}


@cache
def planned(name: str) -> str:
    """Return the name by which a module stands in the plan of layers."""
    for end in range(len(name), 0, -1):
        if name[:end] in _PLACES and name[end : end + 1] in ("", "."):
            return _PLACES[name[:end]] + name[end:]
    return name


PLANNED: Final = {planned(module.name) for module in OURS} | {PACKAGE}


def _module_of(name: str) -> str:
    """Return the module that an imported name lies in: `package.module.attribute` -> `package.module`."""
    while name not in MODULES and "." in name and name.startswith(f"{PACKAGE}."):
        name = name.rpartition(".")[0]
    return name


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Return every import of a module, those in strings included."""
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[Import]:
    stack: list[tuple[ast.AST, bool]] = [(module.tree, False)]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Constant):
            yield from _imports_by(node, module, inside)
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack.extend((child, deeper) for child in ast.iter_child_nodes(node))


def _imports_by(node: ast.Import | ast.ImportFrom | ast.Constant, module: Module, inside: bool) -> Iterator[Import]:
    if isinstance(node, ast.Constant):
        named = _IN_STRING.fullmatch(node.value) if isinstance(node.value, str) else None
        if named:
            yield Import(_module_of(named[1]), module.place(node.lineno), inside, by_string=True)
        return
    place = module.place(node.lineno)
    if isinstance(node, ast.Import):
        yield from (Import(_module_of(alias.name), place, inside) for alias in node.names)
        return
    assert node.level == 0, f"{place}: imports are absolute here"
    base = node.module or ""
    targets = {_module_of(f"{base}.{alias.name}") for alias in node.names} if _is_ours(base) else {base}
    yield from (Import(target, place, inside) for target in sorted(targets))


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


def _ours(module: Module) -> Iterator[Import]:
    yield from (found for found in imports(module) if _is_ours(found.target))


def _part_of(module: str, package: str) -> str:
    """Return the part of a package that a module belongs to, empty where it lies outside or is the package's own."""
    return module[len(package) + 1 :].partition(".")[0] if module.startswith(f"{package}.") else ""


def test_imports_go_down_only() -> None:
    layer_of = {part: at for at, layer in enumerate(LAYERS) for part in layer}
    problems = []
    for module in OURS:
        own = _part_of(planned(module.name), PACKAGE)
        own_layer = -1 if module.name == ENTRY_POINT else layer_of[own]
        for found in _ours(module):
            part = _part_of(planned(found.target), PACKAGE)
            if part and part != own and layer_of.get(part, -1) <= own_layer:
                problems.append(f"{found.place}: {own} must not import {found.target}")
    assert not problems


def test_imports_between_parts_of_a_package_go_down_only() -> None:
    """A part is a module of the package or a package in it; modules on one row may import each other, packages not."""
    problems = []
    for inner, rows in INNER_LAYERS.items():
        package = f"{PACKAGE}.{inner}"
        packages = _packages_in(package)
        row_of = {part: at for at, row in enumerate(rows) for part in row}
        for (part, target), found in _arrows(package).items():
            above, below = row_of.get(part, row_of.get(".")), row_of.get(target, row_of.get("."))
            if above is None or below is None:
                problems.append(
                    f"{found.place}: the plan of {inner} has no row for {part if above is None else target}"
                )
            elif above > below or (above == below and {part, target} & packages):
                problems.append(f"{found.place}: {inner}.{part} must not import {found.target}")
    assert not problems


def test_the_plan_names_every_package_once_and_nothing_else() -> None:
    have_packages = {name.removeprefix(f"{PACKAGE}.") for name in PLANNED - {PACKAGE} if _packages_in(name)}
    assert set(INNER_LAYERS) == have_packages - {LOADED_BY_ALEMBIC}
    for inner, rows in INNER_LAYERS.items():
        named = [part for row in rows for part in row if part != "."]
        assert len(set(named)) == len(named), f"{inner}: a part is on two rows"
        parts = {_part_of(name, f"{PACKAGE}.{inner}") for name in PLANNED} - {""}
        assert _packages_in(f"{PACKAGE}.{inner}") <= set(named) <= parts, inner


def _packages_in(package: str) -> set[str]:
    """Return the names of the packages that lie in a package, without those inside them."""
    below = {name.rpartition(".")[0] for name in PLANNED if name.startswith(f"{package}.")}
    return {_part_of(name, package) for name in below} - {""}


def test_every_module_is_on_one_layer() -> None:
    listed = [part for layer in LAYERS for part in layer]
    assert len(set(listed)) == len(listed), "a folder is on two layers"
    parts = {_part_of(planned(module.name), PACKAGE) for module in OURS if module.name != ENTRY_POINT}
    assert parts == set(listed)


def test_the_package_itself_imports_nothing() -> None:
    assert not imports(MODULES[PACKAGE])


def test_strings_name_things_that_are_there() -> None:
    problems = []
    for module in OURS:
        texts = (
            node for node in ast.walk(module.tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        for place, named in ((module.place(node.lineno), _IN_STRING.fullmatch(str(node.value))) for node in texts):
            if named and not (named[1] in MODULES and named[2] in _defined(MODULES[named[1]])):
                problems.append(f"{place}: {named[0]}")
    assert not problems


def _defined(module: Module) -> set[str]:
    stored = {
        node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return stored | {node.name for node in module.tree.body if isinstance(node, kinds)}


def test_imports_inside_functions_are_the_few_with_a_reason() -> None:
    found = {
        (module.name, one.target): one.place
        for module in OURS
        for one in imports(module)
        if one.in_function and not one.by_string
        if not (module.name in COMMANDS and planned(one.target).startswith(f"{PACKAGE}.cli."))
    }
    without_reason = [place for pair, place in found.items() if pair not in INSIDE_FUNCTIONS]
    assert not without_reason
    assert not set(INSIDE_FUNCTIONS) - set(found), "no longer there"


def test_no_module_imports_itself_in_a_circle() -> None:
    # What a string names is loaded later, so it closes no circle; the layers hold for it all the same.
    _no_circle({m.name: {i.target: i.place for i in _ours(m) if not i.by_string} for m in MODULES.values()})


def test_parts_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    """A part is a module of the package or a package in it."""
    for package in {name.rpartition(".")[0] for name in PLANNED if name.count(".") > 1}:
        arrows: dict[str, dict[str, str]] = defaultdict(dict)
        for (part, target), found in _arrows(package, strings=False).items():
            arrows[part][target] = found.place
        _no_circle(arrows)


def _arrows(package: str, *, strings: bool = True) -> dict[tuple[str, str], Import]:
    """Return the pairs of parts of a package of which one imports the other, with one import for each."""
    arrows = {}
    for module in MODULES.values():
        part = _part_of(planned(module.name), package)
        for found in _ours(module) if part else ():
            target = _part_of(planned(found.target), package)
            if target and target != part and (strings or not found.by_string):
                arrows[part, target] = found
    return arrows


def _no_circle(arrows: dict[str, dict[str, str]]) -> None:
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way, name)) + f": {arrows[way[-1]][name]}"
        if name not in done:
            for target in sorted(arrows.get(name, ())):
                visit(target, (*way, name))
            done.add(name)

    for name in list(arrows):
        visit(name, ())


def test_deciders_do_not_await_and_read_no_clock() -> None:
    deciders = {m.name: m for m in OURS if "this file decides" in (ast.get_docstring(m.tree) or "").lower()}
    assert set(deciders) >= DECIDERS
    problems = [
        f"{module.place(getattr(node, 'lineno', 1))}: {ast.unparse(node).splitlines()[0]}"
        for module in deciders.values()
        for node in ast.walk(module.tree)
        if isinstance(node, _WAITS) or _imports_a_clock(node)
    ]
    assert not problems


def _imports_a_clock(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return bool({name.partition(".")[0] for name in names} & _CLOCKS)


def _calls(*names: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the place of each call of a function or class of these names, or of their `_make`."""
    for module in OURS:
        for call in (node for node in ast.walk(module.tree) if isinstance(node, ast.Call)):
            called = call.func
            if isinstance(called, ast.Attribute) and called.attr == "_make":
                called = called.value
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
            if name in names:
                yield module.name, module.place(call.lineno)


@pytest.mark.parametrize(("method", "sender"), ONE_SENDER.items())
def test_requests_of_hosts_leave_from_one_place(method: str, sender: str) -> None:
    senders = {
        module.name
        for module in OURS
        if planned(module.name).startswith(f"{PACKAGE}.gateway.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(f"upstream.{method}")
    }
    assert senders == {sender}


@pytest.mark.parametrize(("name", "maker"), ONE_MAKER.items())
def test_what_proves_a_step_has_one_maker(name: str, maker: str) -> None:
    makers = list(_calls(name))
    assert makers, f"{name} is made nowhere"
    assert not [place for module, place in makers if module != maker]


def test_tasks_are_started_where_they_have_an_owner() -> None:
    started = set(_calls("create_task", "ensure_future"))
    allowed = {TASKS, *TASKS_OF_THEIR_OWN}
    assert not [place for module, place in sorted(started) if module not in allowed]
    assert not allowed - {module for module, _ in started}, "no longer there"


def test_no_module_imports_everything_of_another() -> None:
    assert not [
        module.place(node.lineno)
        for module in MODULES.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    ]


@pytest.mark.parametrize(
    ("name", "late"),
    [
        (f"{PACKAGE}.cli.commands", HEAVY),
        (f"{PACKAGE}.cli.stdio", HEAVY),
        # With its first page.
        (f"{PACKAGE}.cli.serve", ("mcp", "starlette", "jinja2")),
    ],
)
def test_commands_load_nothing_heavy_before_it_is_needed(name: str, late: tuple[str, ...]) -> None:
    check = f"import sys, {name}; print(*sorted(set({late!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


if __name__ == "__main__":
    for of in sys.argv[1:] or sorted({name.rpartition(".")[0] for name in MODULES if name != PACKAGE}):
        for (part, target), one in sorted(_arrows(of).items()):
            print(f"{of}: {part} -> {target}  ({one.place})")
