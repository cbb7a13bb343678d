"""Values of entries, wherever they stand, are in nothing that an import says."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.cli.hosts.import_plan import plan_import
from aggregator.cli.hosts.import_table import plan_json, plan_lines
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import HostProgram
from tests.hosts.test_discover import found_in

_VALUE = st.sampled_from(
    ["canary", "Canary-77", "sk-canary0123456789", "https://u:canary@h/canary?k=canary", "a canary b"]
)
_NAMES = st.sampled_from(["TOKEN", "MODE", "X-Key", "DATABASE_URL", "a b", ""])
_VALUES = st.dictionaries(_NAMES, _VALUE | st.lists(_VALUE, max_size=1), max_size=3)
_FLAGS = st.sampled_from(["--token", "-e", "--header", "-v", "--", "--env-file", "-c"])
_HIDDEN = {
    **dict.fromkeys(("env", "envs", "headers", "http_headers", "env_http_headers", "requestOptions", "oauth"), _VALUES),
    **dict.fromkeys(("cwd", "envFile", "apiKey", "bearer_token", "description", "headersHelper", "auth"), _VALUE),
    **dict.fromkeys(("type", "timeout", "tools", "disabled", "transport"), _VALUE | _VALUES),
}
_ARGS = st.lists(st.tuples(_FLAGS, _VALUE).map(list), max_size=3).map(
    lambda pairs: ["-y", "package", *[word for pair in pairs for word in pair]]
)
_PROGRAM = st.fixed_dictionaries({"command": st.just("npx"), "args": _ARGS}, optional=_HIDDEN)
_ADDRESS = st.fixed_dictionaries(
    {
        "url": st.sampled_from(
            ["https://u:canary@h.example/m", "https://h.example/canary?key=canary#canary", "canary://x"]
        )
    },
    optional=_HIDDEN,
)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.id)
@given(entries=st.lists(_PROGRAM | _ADDRESS | _VALUE, min_size=1, max_size=3), existing=st.lists(_PROGRAM, max_size=1))
def test_no_value_is_in_the_table_or_the_json(
    host: HostProgram, entries: list[Any], existing: list[dict[str, Any]]
) -> None:
    found = found_in(host, {f"s{number}": entry for number, entry in enumerate(entries)})
    plan = plan_import([found], {f"e{number}": entry for number, entry in enumerate(existing)})
    said = "\n".join(plan_lines(plan, Path("/home"))) + json.dumps(plan_json(plan)) + repr(plan)
    assert len(plan.rows) == len(entries)
    assert "canary" not in said.lower()


def test_a_name_that_differs_in_its_case_is_taken() -> None:
    """Names of tools begin with it, and hosts may take them for one."""
    (host,) = (one for one in HOSTS if one.id == "cursor")
    found = found_in(host, {"github": {"command": "a"}, "GitHub": {"command": "b"}, "Other": {"command": "c"}})
    plan = plan_import([found], {"GITHUB": {"command": "d"}, "othe": {"command": "e"}})
    keys = [row.key or "" for row in plan.added]
    assert len({"github", *map(str.casefold, keys)}) == 4, keys
    assert keys[-1] == "Other"
