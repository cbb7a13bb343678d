"""server.json becomes an entry: what is started and reached, what is asked, and nothing of this machine read."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.config.load import load_mapping
from aggregator.config.servers.expand import Expander
from aggregator.packages.errors import PackageError
from aggregator.packages.plan import EntryPlan, literal
from aggregator.packages.server_json import read_description
from aggregator.packages.source import package_plan, read_source
from tests.adding.descriptions import ANY_JSON, DESCRIPTIONS, FISHING, NPM, Json, answer, server
from tests.laws import examples


def plan_of(detail: Json, at: int = 0) -> EntryPlan:
    plan = read_description(detail, "server.json").choices[at].plan
    assert plan is not None
    return plan


def test_an_npm_package_with_variables_and_arguments() -> None:
    package = {
        **NPM,
        "packageArguments": [
            {"type": "positional", "valueHint": "folder", "isRequired": True, "isRepeated": True},
            {"type": "named", "name": "--mode", "default": "local", "choices": ["local", "cached"]},
            {"type": "named", "name": "--units"},
            {"type": "named", "name": "--limit", "format": "number"},
        ],
        "environmentVariables": [
            {"name": "WEATHER_KEY", "isRequired": True, "isSecret": True, "description": "From the site"},
            {"name": "WEATHER_LANG", "default": "en"},
            {"name": "WEATHER_PROXY"},
        ],
    }
    plan = plan_of(server(package))
    asked = {question.key: question for question in plan.questions}
    assert list(asked) == ["folder", "mode", "limit", "WEATHER_KEY", "WEATHER_LANG", "WEATHER_PROXY"]
    assert asked["WEATHER_KEY"].secret
    entry = plan.entry({"folder": ["/a", "/b c"], "limit": ["5"]})
    assert entry == {
        "command": "npx",
        "args": ["-y", "@example/weather-mcp@1.2.3", "/a", "/b c", "--mode", "local", "--units", "--limit", "5"],
        "env": {"WEATHER_KEY": "${WEATHER_KEY}", "WEATHER_LANG": "en"},
        "description": "Weather of all places",
    }
    assert [one.variable for one in plan.unanswered({})] == ["FOLDER", "WEATHER_KEY"]
    assert plan.name == "weather"


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ({"registryType": "pypi", "identifier": "weather-mcp", "version": "0.5.0"}, "uvx weather-mcp@0.5.0"),
        ({"registryType": "npm", "identifier": "weather"}, "npx -y weather"),
        (
            {"registryType": "npm", "identifier": "w", "runtimeArguments": [{"type": "named", "name": "--yes"}]},
            "npx --yes w",
        ),
        (
            {"registryType": "npm", "identifier": "w", "registryBaseUrl": "https://npm.example.com"},
            "npx -y --registry=https://npm.example.com w",
        ),
        (
            {
                "registryType": "nuget",
                "identifier": "Weather.Server",
                "version": "1.0",
                "packageArguments": [{"type": "positional", "value": "mcp"}],
            },
            "dnx Weather.Server@1.0 --yes -- mcp",
        ),
        (
            {
                "registryType": "oci",
                "identifier": "ghcr.io/example/weather:1.0",
                "environmentVariables": [{"name": "KEY", "value": "x"}],
                "runtimeArguments": [{"type": "named", "name": "--memory", "value": "1g"}],
            },
            "docker run -i --rm -e KEY --memory 1g ghcr.io/example/weather:1.0",
        ),
        (
            {"registryType": "oci", "identifier": "example/weather", "version": "2"},
            "docker run -i --rm example/weather:2",
        ),
        ({"registry_type": "npm", "identifier": "old", "package_arguments": [{"value": "a"}]}, "npx -y old a"),
    ],
)
def test_commands_of_packages(package: Json, command: str) -> None:
    entry: dict[str, Any] = plan_of(server({"transport": {"type": "stdio"}, **package})).entry({})
    assert " ".join([entry["command"], *entry["args"]]) == command


def test_an_option_before_a_value_that_is_left_out() -> None:
    optional = {"type": "positional", "valueHint": "proxy"}
    written = {**NPM, "packageArguments": [{"type": "positional", "value": "--proxy"}, optional, {"value": "z"}]}
    plan = plan_of(server(written))
    assert plan.entry({})["args"] == ["-y", "@example/weather-mcp@1.2.3", "z"]
    assert plan.left_out({}) == ("It is started without --proxy: proxy has no value.",)
    assert plan.entry({"proxy": ["p"]})["args"] == ["-y", "@example/weather-mcp@1.2.3", "--proxy", "p", "z"]
    # A flag that is declared as one takes no value, and neither do the options that are ours.
    flag = plan_of(server({**NPM, "packageArguments": [{"type": "named", "name": "--fast"}, optional]}))
    assert flag.entry({})["args"] == ["-y", "@example/weather-mcp@1.2.3", "--fast"]
    ours = plan_of(server({**NPM, "runtimeArguments": [optional]}))
    assert ours.entry({})["args"] == ["-y", "@example/weather-mcp@1.2.3"]


def test_a_remote_with_variables_and_headers() -> None:
    remote = {
        "type": "streamable-http",
        "url": "https://{tenant}.example.com/mcp",
        "variables": {"tenant": {"isRequired": True, "choices": ["a", "b"]}},
        "headers": [
            {
                "name": "Authorization",
                "value": "Bearer {token}",
                "variables": {"token": {"isSecret": True, "isRequired": True}},
            },
            {"name": "X-Region", "default": "eu"},
            {"name": "X-Other"},
        ],
    }
    plan = plan_of(server(remotes=[remote]))
    assert plan.entry({"tenant": ["a"]}) == {
        "type": "http",
        "url": "https://a.example.com/mcp",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Region": "eu"},
        "description": "Weather of all places",
    }
    with pytest.raises(PackageError, match="one of a, b"):
        plan.entry({"tenant": ["c"]})
    with pytest.raises(PackageError, match="does not ask for 'other'"):
        plan.entry({"other": ["c"]})


def test_what_an_address_cannot_do_without_is_asked() -> None:
    """No variable of this machine gets into an address unless the person is told."""
    remote = {"type": "sse", "url": "https://{AWS_SECRET}.example.com/", "variables": {"AWS_SECRET": {}}}
    plan = plan_of(server(remotes=[remote]))
    assert [one.variable for one in plan.unanswered({})] == ["AWS_SECRET"]


def test_a_package_that_serves_an_address_is_launched() -> None:
    package = {
        **NPM,
        "transport": {"type": "streamable-http", "url": "http://127.0.0.1:{--port}/mcp"},
        "packageArguments": [{"type": "named", "name": "--port", "default": "3000", "format": "number"}],
    }
    entry = plan_of(server(package)).entry({"port": ["4000"]})
    assert entry["url"] == "http://127.0.0.1:4000/mcp"
    assert entry["launch"] == {"command": "npx", "args": ["-y", "@example/weather-mcp@1.2.3", "--port", "4000"]}


@pytest.mark.parametrize(
    ("package", "why"),
    [
        ({"identifier": "--call=id"}, "not the name of a npm package"),
        ({"identifier": "git+ssh://example.com/x"}, "not the name of a npm package"),
        ({"identifier": "./here"}, "not the name of a npm package"),
        ({"version": "^1.0"}, "is not a version"),
        ({"version": "--x"}, "is not a version"),
        ({"registryType": "cargo"}, "cannot be run here"),
        ({"registryBaseUrl": "http://npm.example.com"}, "not https"),
        ({"transport": {"type": "carrier-pigeon"}}, "transport 'carrier-pigeon' is not known"),
        ({"environmentVariables": [{"name": "A=B"}]}, "no name of one"),
        ({"registryType": "oci", "identifier": "-v /:/host"}, "not the name of a container image"),
    ],
)
def test_what_is_refused(package: Json, why: str) -> None:
    with pytest.raises(PackageError, match=why):
        read_description(server({**NPM, **package}), "server.json")


def test_one_bad_package_costs_itself_alone() -> None:
    found = read_description(server({**NPM, "identifier": "-x"}, NPM, {"registryType": "cargo"}), "f")
    assert [choice.kind for choice in found.choices] == ["npm"]
    assert [said.partition(":")[0] for said in found.refused] == ["packages[0]", "packages[2]"]


def test_a_program_of_another_name_is_not_followed() -> None:
    plan = plan_of(server({**NPM, "runtimeHint": "bash"}))
    assert plan.entry({})["command"] == "npx"
    assert "asks for 'bash'" in plan.notes[0]


# From docker's reference of `docker run`: files, devices, namespaces, ports and rights of the machine.
_OF_THIS_MACHINE: Final = (
    "-v --volume --volumes-from --mount --device --gpus --privileged --cap-add --security-opt --network --net --pid "
    "--ipc --uts --userns --cgroupns --env-file -p --publish -P --publish-all"
)


@pytest.mark.parametrize("option", _OF_THIS_MACHINE.split())
def test_what_a_container_gets_of_this_machine_is_told(option: str) -> None:
    for argument in (
        {"type": "named", "name": option, "value": "x"},
        {"type": "positional", "value": f"{option}=x"},
    ):
        plan = plan_of(server({"registryType": "oci", "identifier": "a/b", "runtimeArguments": [argument]}))
        assert plan.notes == (f"Its container gets something of this machine: {option}.",)


def test_of_what_a_container_has_alone_nothing_is_told() -> None:
    ones = [{"type": "named", "name": option, "value": "x"} for option in ("-e", "--name", "--memory", "--label")]
    plan = plan_of(server({"registryType": "oci", "identifier": "a/b", "runtimeArguments": ones}))
    assert plan.notes == ()


_STEERING: Final = (
    "PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH NODE_OPTIONS NODE_PATH BASH_ENV "
    "PYTHONSTARTUP PYTHONPATH PYTHONHOME"
)


@pytest.mark.parametrize("name", _STEERING.split())
def test_a_variable_that_makes_programs_run_something_else_is_told(name: str) -> None:
    plan = plan_of(server({**NPM, "environmentVariables": [{"name": name, "value": "--require ./x.js"}]}))
    assert plan.notes == (f"It sets {name}, which can make programs run something else.",)


def test_a_deprecated_server_says_so() -> None:
    plan = plan_of(answer(server(NPM), status="deprecated"))
    assert plan.notes == ("The registry says that it is deprecated.",)


@given(ANY_JSON | DESCRIPTIONS)
def test_any_json_is_a_description_or_is_refused(root: Any) -> None:
    with suppress(PackageError):
        for choice in read_description(root, "server.json").choices:
            if choice.plan is not None:
                choice.plan.entry({})


# The `$` and the name come together only once the variable between is empty.
_SPLIT = {"name": "X", "value": "${x}{AWS_SECRET}", "variables": {"x": {"value": ""}}}


class _Environment(dict[str, str]):
    """Variables that fail the test when one is asked for that the person was not told of."""

    def __init__(self, told: set[str]) -> None:
        super().__init__(dict.fromkeys(told, "told"))

    def get(self, name: str, default: Any = None) -> Any:
        assert name in self, f"a description read the variable {name}"
        return super().get(name, default)


@settings(max_examples=examples(400))
@given(DESCRIPTIONS)
@example(server(remotes=[{"type": "sse", "url": "https://a", "headers": [_SPLIT]}]))
def test_a_description_reads_no_variable_and_no_file(root: Json) -> None:
    """Only what the person was asked is a reference, whatever the parts of a description make together."""
    try:
        choices = read_description(root, "server.json").choices
    except PackageError:
        return
    for plan in (choice.plan for choice in choices if choice.plan is not None):
        expander = Expander(_Environment({one.variable for one in plan.questions if one.required}), Path("/nowhere"))
        for text in _texts(plan.entry({})):
            expander.expand(text)
        assert not expander.files


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in _texts(item)]


@given(st.lists(FISHING, max_size=4))
@example(["$", "{HOME}"])
@example(["a$", "", "{HOME}"])
def test_texts_of_packages_stay_as_they_were_written(parts: list[str]) -> None:
    expander = Expander(_Environment(set()), Path("/nowhere"))
    assert expander.expand("".join(map(literal, parts))) == "".join(parts)


@given(DESCRIPTIONS)
def test_an_entry_is_one_that_the_configuration_takes(root: Json) -> None:
    try:
        choices = read_description(root, "server.json").choices
    except PackageError:
        return
    for plan in (choice.plan for choice in choices if choice.plan is not None):
        told = {one.variable: "1" for one in plan.questions}
        loaded = load_mapping({"mcpServers": {"it": plan.entry({})}}, told)
        # What the values make of it may be wrong; its fields and their types never are.
        assert not [one for one in loaded.problems if re.search("not known|Expected|valid", one.message)]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("npm:@modelcontextprotocol/server-everything", "npx -y @modelcontextprotocol/server-everything"),
        ("npm:@a/b@1.0", "npx -y @a/b@1.0"),
        ("npm:b@latest", "npx -y b"),
        ("pypi:mcp-server-time==2026.1", "uvx mcp-server-time@2026.1"),
        ("pypi:some[extra]@1.0", "uvx some[extra]@1.0"),
        ("oci:ghcr.io/a/b:1", "docker run -i --rm ghcr.io/a/b:1"),
        ("nuget:A.B@1", "dnx A.B@1 --yes"),
    ],
)
def test_packages_by_name(text: str, command: str) -> None:
    entry: dict[str, Any] = package_plan(read_source(text)).entry({})
    assert " ".join([entry["command"], *entry["args"]]) == command


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("npm:@modelcontextprotocol/server-everything", "everything"),
        ("pypi:mcp-server-time", "time"),
        ("npm:@acme/mcp", "mcp"),
        ("npm:weather-mcp-server", "weather"),
        ("oci:ghcr.io/github/github-mcp-server:1.0", "github"),
        ("npm:mcpmark", "mcpmark"),
    ],
)
def test_the_name_that_a_package_gives(text: str, name: str) -> None:
    assert package_plan(read_source(text)).name == name


@pytest.mark.parametrize(
    "text",
    ["npm:", "npm:--x", "npm:a@^1", "pypi:-r x.txt", "oci:--privileged", "what", "https://x/y.json", "", "cargo:x"],
)
def test_sources_that_are_none(text: str) -> None:
    with pytest.raises(PackageError):
        package_plan(read_source(text))


@given(st.text(max_size=40) | FISHING.map(lambda text: f"npm:{text}"))
def test_any_text_is_a_source_or_is_refused(text: str) -> None:
    with suppress(PackageError):
        source = read_source(text)
        if source.kind in ("npm", "pypi", "oci", "nuget"):
            entry: dict[str, Any] = package_plan(source).entry({})
            assert not any(arg.startswith("-") for arg in entry["args"][-1:]) or source.kind == "nuget"
