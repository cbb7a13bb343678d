"""The checks by plain facts: every finding is well formed, bounded, and the codes are those of the documentation."""

import re
from pathlib import Path
from typing import Any, Final, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.accounts.doctor.checks import AccountFacts, of_accounts
from aggregator.config.server_config import Isolation, ServerConfig
from aggregator.config.settings import TlsConfig
from aggregator.doctor import examine
from aggregator.doctor.checks.configuration import UnusableConfig, of_problems, of_unusable
from aggregator.doctor.checks.gateway import GatewayFacts, HttpAnswer, of_answer, of_certificate, of_gateway
from aggregator.doctor.checks.host_files import HostFacts, OwnEntry, of_host
from aggregator.doctor.checks.model_view import ToolsSeen, ToolsThere, of_seen
from aggregator.doctor.checks.policies import Denial, PolicyFacts, of_denials, of_keys, of_policies
from aggregator.doctor.checks.servers import ServerFacts, of_asking, of_growing, of_servers
from aggregator.doctor.checks.storage import StorageFacts, of_held, of_storage
from aggregator.doctor.checks.tool_settings import UnlistedTool
from aggregator.doctor.codes import CODES
from aggregator.doctor.finding import SEVERITIES, CheckFinding, DoctorReport, in_order
from aggregator.doctor.gather.machine import read_machine
from aggregator.domain.connection_causes import CAUSES
from aggregator.domain.problems import Problem
from aggregator.frontends.tls import CertificateFacts
from aggregator.hosts.every_host import HOSTS, limits_of
from aggregator.hosts.model import HostLimits, Machine
from aggregator.identity import identify
from aggregator.tool_reports.doctor import ReportCounts, of_reports
from tests.doctor.test_seeds import SEEDS

PLACE = Path("/somewhere/aggregator.json")
TEXT = st.text(max_size=200)
STATES = st.sampled_from(["ready", "stopped", "starting", "reconnecting", "unavailable", "disabled"])
SERVERS = st.builds(
    ServerFacts,
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.sampled_from(["stdio", "http", "sse", "auto", "local"]),
    TEXT,
    STATES,
    enabled=st.booleans(),
    disabled_reason=st.none() | TEXT,
    reason=TEXT,
    words=st.lists(TEXT, max_size=6),
    noise=st.booleans(),
    seconds=st.none() | st.floats(0, 100),
    tools=st.integers(0, 5),
    left_out=st.lists(TEXT, max_size=5),
    unlisted=st.lists(st.builds(UnlistedTool, st.just("tools.timeout"), TEXT, st.none() | TEXT), max_size=3),
    command=st.none() | TEXT,
    address=st.none() | TEXT,
    same_as=st.none() | TEXT,
    calls=st.none() | st.integers(0, 3),
)


def entry(name: str, **given: Any) -> ServerConfig:
    return ServerConfig.model_validate(
        {"id": name, "key": name, "prefix": name, "type": "stdio", "command": "x", **given}
    )


def well_formed(finding: CheckFinding) -> bool:
    mended = finding.fix is not None or finding.severity == "ok"
    return finding.code in CODES and finding.severity in SEVERITIES and bool(finding.message) and mended


@given(SERVERS)
def test_a_server_that_is_wanted_and_not_ready_has_one_reason(server: ServerFacts) -> None:
    """C1, E4: A server that is down is told once, as an error; one that is up never as one."""
    found = list(of_servers([server]))
    assert all(map(well_formed, found))
    down = server.enabled and server.state not in ("ready", "stopped")
    assert sum(one.severity == "error" for one in found) == down
    assert all(len(one.message) < 2_000 for one in found)


@given(st.text(), st.none() | st.just(PLACE))
def test_any_error_of_a_configuration_is_a_finding(error: str, path: Path | None) -> None:
    """E9: A sentence that no pattern knows is passed on under a general code."""
    (finding,) = of_unusable(UnusableConfig(error, path, PLACE))
    assert finding.severity == "error"
    assert finding.code in CODES


@given(st.builds(Problem, TEXT, TEXT, TEXT, TEXT, st.sampled_from(["error", "warning"]), st.none()))
def test_problems_keep_their_severity(problem: Problem) -> None:
    """E9: Every problem that `aggregator check` tells is told here too."""
    (finding,) = of_problems([problem])
    assert finding.severity == problem.severity
    assert finding.fix == problem.fix


NAMES = st.lists(st.from_regex(r"[a-z._-]{1,70}", fullmatch=True), max_size=8, unique=True)


@given(
    NAMES,
    st.sampled_from([host.id for host in HOSTS]),
    st.integers(0, 10),
    st.integers(0, 9_000),
    st.integers(0, 9_000),
)
def test_what_a_host_refuses_is_an_error(
    names: list[str], host: str, listed: int, all_of_them: int, short: int
) -> None:
    """F2: A name that a host refuses is found, and one that it takes is not."""
    limits = limits_of(host)
    seen = ToolsSeen(host, "local", names, 100)
    found = list(of_seen(seen, ToolsThere(names, all_of_them, short, listed), limits))
    codes = [one.code for one in found]
    dots = limits.plain and any("." in name for name in names)
    refused = dots or bool(limits.long_names(names, "aggregator"))
    assert ("host_refuses_names" in codes) == refused
    assert ("model_sees_nothing" in codes) == (not names)
    assert ("model_sees" in codes) == bool(names)
    assert all(map(well_formed, found))


BOX: Final = ("box.a", "box.b")


@pytest.mark.parametrize(
    ("tokens", "there", "codes"),
    [
        (9_000, None, []),
        (9_000, ToolsThere(BOX, tokens=9_000, search=1_000, listed=2), ["list_costly"]),
        # A list of few tokens, or one that search would not make much shorter.
        (8_000, ToolsThere(BOX, tokens=8_000, search=1_000, listed=2), []),
        (9_000, ToolsThere(BOX, tokens=9_000, search=4_500, listed=2), []),
        # What the host was listed is short already.
        (1_500, ToolsThere(BOX, tokens=9_000, search=1_000, listed=2), []),
        (1_500, ToolsThere(BOX, tokens=1_500, search=1_000, listed=3), ["tools_missing"]),
        (9_000, ToolsThere(BOX, tokens=9_000, search=1_000, listed=3), ["list_costly", "tools_missing"]),
    ],
)
def test_the_list_of_a_model_is_judged(tokens: int, there: ToolsThere | None, codes: list[str]) -> None:
    """E9: what it costs, and what it lacks, if the servers answered."""
    found = list(of_seen(ToolsSeen("Cursor", "local", BOX, tokens), there, HostLimits("x")))
    assert [one.code for one in found] == ["model_sees", *codes]
    assert all(map(well_formed, found))


@given(st.lists(st.builds(Denial, TEXT, TEXT, st.none() | TEXT), max_size=12))
def test_denials_are_told_by_rule(denials: list[Denial]) -> None:
    """D4: One note for each rule, however many tools it denies."""
    found = list(of_denials("local", denials, 20))
    assert len(found) == len({(one.reason, one.source) for one in denials})
    assert all(one.severity == "note" for one in found)


NOW: Final = 1_800_000_000.0
DAY: Final = 86_400.0


@pytest.mark.parametrize(
    ("expires", "used", "said"),
    [
        (None, None, None),
        (NOW + 7 * DAY, None, None),
        (NOW + 7 * DAY - 1, None, "The key k1 of the agent ada ends in 6 days."),
        (NOW + DAY - 1, None, "The key k1 ends today."),
        (NOW, NOW - 29 * DAY, "The key k1 of the agent ada has ended, and was in use until then."),
        (NOW, NOW - 31 * DAY, None),
        (NOW, None, None),
    ],
)
@pytest.mark.parametrize("revoked", [None, NOW - 1])
def test_a_key_that_ends_is_told_in_time(
    expires: float | None, used: float | None, said: str | None, revoked: float | None
) -> None:
    key = {"key_id": "k1", "agent_id": "ada", "expires": expires, "last_used": used, "revoked": revoked}
    found = [one.message for one in of_keys([key], ["ada"], NOW)]
    assert found == ([said] if said is not None and revoked is None else [])


@pytest.mark.parametrize(
    "name", ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy", None]
)
@pytest.mark.parametrize("passed", ["NO_PROXY", "no_proxy"])
def test_every_variable_of_a_proxy_is_known(name: str | None, passed: str) -> None:
    environ = {"HOME": "/home/ada", "PATH": "", passed: "localhost"}
    facts = read_machine(None, environ | ({name: "http://proxy.example:3128"} if name is not None else {}), NOW)
    assert (facts.proxies, facts.no_proxy) == ([name] if name is not None else [], "localhost")


@given(st.none() | st.integers(100, 599), TEXT)
def test_an_answer_is_a_finding_unless_it_serves(status: int | None, said: str) -> None:
    """D5: Every refusal has a code and a mend."""
    found = list(of_answer(HttpAnswer("Cursor", "cursor", "/f", "http://127.0.0.1:1/mcp", status, said)))
    assert bool(found) == (status is None or status >= 400)
    assert all(map(well_formed, found))


@pytest.mark.parametrize(
    ("where", "place", "says"),
    [("agents.one", "main.yaml: agents.one", "agents.one: Odd."), ("", "main.yaml", "Odd.")],
)
@pytest.mark.parametrize("severity", ["error", "warning"])
def test_a_problem_of_a_policy_file_is_told_with_its_place(
    where: str, place: str, says: str, severity: Literal["error", "warning"]
) -> None:
    """D5: The file, and the place inside if it has one."""
    problem = Problem("main.yaml", where, "Odd.", "Mend it.", severity)
    facts = PolicyFacts(PLACE, True, True, [problem][: severity == "error"], [problem][: severity == "warning"], None)
    (finding,) = of_policies(facts)
    assert (finding.where, finding.message, finding.fix) == (place, says, "Mend it.")
    assert finding.code == ("policy_broken" if severity == "error" else "policy_warning")


@pytest.mark.parametrize(
    ("refused", "code", "mend"),
    [
        *((one, "key_refused", "aggregator keys new AGENT") for one in identify._WRONG.values()),
        (identify._NEEDED, "key_refused", "aggregator keys new AGENT"),
        (identify._NEEDED_OF_EITHER, "key_refused", "aggregator keys new AGENT"),
        (identify._ELSEWHERE, "key_refused", "aggregator keys new AGENT"),
        (identify._FORWARDED, "gateway_proxy", "a proxy passes on"),
        (identify._TWICE, "key_refused", "one header"),
        (identify._NOT_BEARER, "key_refused", "Bearer agk_"),
        (identify._IN_URL, "key_refused", "out of the address"),
        (identify._OTHERS, "key_refused", "the agent that the address names"),
    ],
    ids=lambda one: one.reason[:30] if isinstance(one, identify.Refused) else None,
)
def test_each_refusal_of_a_key_has_its_own_mend(refused: identify.Refused, code: str, mend: str) -> None:
    """D5: In the words that a gateway uses."""
    answer = HttpAnswer("Cursor", "cursor", "/f", "http://127.0.0.1:1/mcp", refused.status, refused.reason)
    (finding,) = of_answer(answer)
    assert finding.code == code
    assert mend in (finding.fix or "")
    assert refused.reason in finding.message


@given(
    st.dictionaries(
        st.sampled_from(["tools", "servers", "config", "policies", "keys", "replicas"]),
        st.none()
        | TEXT
        | st.integers()
        | st.lists(TEXT | st.dictionaries(st.sampled_from(["worker", "problem"]), TEXT)),
    )
)
def test_any_health_page_is_taken(report: dict[str, object]) -> None:
    """D3: Another version may report what is not known here."""
    found = list(of_gateway(GatewayFacts("http://x", True, report, "0"), PLACE, "0"))
    assert found[0].code == "gateway_answers"
    assert all(map(well_formed, found))


def test_every_fault_of_the_database_is_told() -> None:
    for fault in ("url", "folder", "read_only", "damaged", "locked", "too_new", "too_old", "unreachable"):
        (finding,) = of_storage(StorageFacts(PLACE, True, fault, "It is so."), audited=True)
        assert well_formed(finding)
    assert not list(of_storage(StorageFacts(PLACE, True, stamp="8", newest="8", free=2**40, mode=0o600), audited=True))
    for mode, open_to in (
        (0o600, []),
        (0o700, []),
        (None, []),
        *((mode, ["database_open"]) for mode in (0o640, 0o620, 0o604)),
    ):
        assert [one.code for one in of_storage(StorageFacts(PLACE, True, mode=mode), audited=True)] == open_to, mode
    full, low = (list(of_storage(StorageFacts(PLACE, True, free=free), audited=True)) for free in (2**20, 2**28))
    assert [full[0].code, low[0].code] == ["disk_full", "disk_low"]


@given(st.booleans(), st.none() | TEXT, st.none() | TEXT, st.none() | st.just("/c.json"), st.none() | st.booleans())
def test_an_entry_of_a_host_is_taken_as_it_is(
    enabled: bool, program: str | None, elsewhere: str | None, config: str | None, exists: bool | None
) -> None:
    entry = OwnEntry("us", PLACE, enabled, "aggregator", program, elsewhere, config, exists)
    found = list(of_host(HostFacts("cursor", "Cursor", PLACE, entries=(entry,)), Path("/c.json"), None))
    assert all(map(well_formed, found))
    gone = enabled and (program is None or (config is not None and exists is False))
    assert any(one.severity == "error" for one in found) == gone


@pytest.mark.parametrize("asked_for", [True, False])
def test_settings_that_cannot_be_read_are_no_fault(asked_for: bool) -> None:
    """Whether our entry is there is not known; only who asks for the host is told so."""
    found = list(of_host(HostFacts("raycast", "Raycast", None, asked_for=asked_for), Path("/c.json"), None))
    assert [(one.code, one.severity) for one in found] == ([("host_settings_unseen", "note")] if asked_for else [])
    assert all("aggregator install raycast" in (one.fix or "") for one in found)


def test_the_worst_comes_first_and_once() -> None:
    made = [CheckFinding(code, CODES[code].severity, code, "x") for code in CODES]
    ordered = in_order([*made, *made])
    assert len(ordered) == len(made)
    severities = [SEVERITIES.index(one.severity) for one in ordered]
    assert severities == sorted(severities)
    assert DoctorReport(None, "local", ordered).exit_code == 1
    assert DoctorReport(None, "local", tuple(one for one in ordered if one.severity in ("note", "ok"))).exit_code == 0


def test_the_codes_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", page, re.MULTILINE)
    assert rows == [(code, meaning.severity, meaning.meaning) for code, meaning in CODES.items()]


# Codes that no seed can bring about here; the tests of the checks make them.
UNSEEDED: Final = frozenset(
    {
        "check_unfinished",
        "database_old",
        "database_driver",
        "database_refused",
        "database_unreachable",
        "definitions_held",
        "disk_low",
        "gateway_config_old",
        "gateway_other_version",
        "gateway_programs",
        "gateway_tls_ends",
        "gateway_workers",
        "host_entry_of_folder",
        "host_settings_unseen",
        "server_asks",
        "server_grows",
        "tools_reported",
    }
    | {"issuer_unreadable", "public_url_missing", "vault_key_missing", "vault_key_needed", "vault_key_open"}
    | {"server_certificate", "server_gateway", "server_tls"}  # tests/faults/test_connection_causes.py
    | {"gateway_restart", "gateway_trouble", "server_down", "server_slow", "server_unused", "tools_missing"}
)


def test_the_codes_without_a_seed_are_found_by_their_facts() -> None:
    """C1, D3: Facts that take days, another version or another machine to come about."""
    slow, unused = (
        ServerFacts("box", "stdio", "f", "ready", tools=3, **one) for one in ({"seconds": 9.0}, {"calls": 0})
    )
    away = [
        ServerFacts("box", "http", "f", "unavailable", address="https://x", reason=cause.words)
        for cause in CAUSES.values()
        if cause.kind in ("certificate", "tls", "server")
    ]
    odd = ServerFacts("box", "stdio", "f", "unavailable", reason="it speaks protocol '1999-01-01'")
    of_folder = OwnEntry("us", PLACE, True, "aggregator", "/bin/aggregator", held_back=True)
    files = {"file": "/o.json", "broken": True, "wait_for_restart": ["http.port"]}
    report = {"config": files, "audit": "full", "replicas": [{"worker": number} for number in (1, 2, 3)]}
    silent = [("https://login.example.com", "nothing answers")]
    far = AccountFacts("f", ["box"], issuers=silent, personal=["box"], reached=True)
    found = [
        *of_accounts(far),
        *of_accounts(AccountFacts("f", ["box"], PLACE, None, grants=2)),
        *of_accounts(AccountFacts("f", ["box"], PLACE, 0o644)),
        *of_servers([slow, unused, odd, *away]),
        *of_gateway(GatewayFacts("http://x", True, report, "0.0.1", cores=2, programs=("a",) * 9), PLACE, "0.1.0"),
        *of_storage(StorageFacts(PLACE, True, stamp="0001", newest="0008", free=2**28), audited=True),
        *of_storage(StorageFacts(None, fault="unreachable", said="It does not answer."), audited=True),
        *of_storage(StorageFacts(None, fault="refused", said="It lets nobody in."), audited=True),
        *of_reports({"shop": ReportCounts(1, 1)}, {"shop"}),
        *of_asking({"box"}, [entry("box")]),
        *of_held({"shop": ("order",), "gone": ("x",)}, {}, {}, {"shop"}),
        *of_growing({"box"}, [entry("box")]),
        *of_storage(StorageFacts(None, fault="driver", said="It is not installed."), audited=True),
        *of_host(HostFacts("cursor", "Cursor", PLACE, entries=(of_folder,)), Path("/c.json"), None),
        *of_host(HostFacts("raycast", "Raycast", None, asked_for=True), Path("/c.json"), None),
        *of_certificate(TlsConfig(certificate="tls.crt", key="tls.key"), CertificateFacts(("x",), 60.0), None, 0.0),
        *of_seen(ToolsSeen("Cursor", "local", ["a"], 5), ToolsThere(["a", "b"], 9, 9, 2), limits_of("cursor")),
    ]
    codes = {one.code for one in found}
    assert codes >= UNSEEDED - {"check_unfinished"}
    assert all(map(well_formed, found))


def test_every_code_is_seeded_or_made_by_its_facts() -> None:
    seeded = {seed.code for seed in SEEDS}
    good = {code for code, meaning in CODES.items() if meaning.severity == "ok"}
    assert seeded | UNSEEDED | good == set(CODES)
    assert not seeded & UNSEEDED


async def test_a_part_that_takes_too_long_costs_its_own_findings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """D7: The rest is told all the same."""
    monkeypatch.setattr(examine, "_DISK", 0.0)
    machine = Machine("linux", Path("/nowhere"), {"HOME": "/nowhere"}, Path("/nowhere"))
    report = await examine.examine(examine.Examination(machine, machine.environ, connect=False))
    codes = [one.code for one in report.findings]
    assert "config_missing" in codes
    assert "check_unfinished" in codes


def test_at_least_forty_misconfigurations_are_seeded() -> None:
    assert len({seed.name for seed in SEEDS}) == len(SEEDS) >= 80
    assert len({seed.code for seed in SEEDS}) >= 60


def test_a_server_that_asks_is_told_by_who_shares_its_connections() -> None:
    """In the words of `list_servers`; a warning where its questions are refused."""
    ways: tuple[Isolation, ...] = get_args(Isolation)
    servers = [entry(way, isolation=way) for way in ways] + [entry("quiet")]
    auto, shared = of_asking({*ways, "gone"}, servers)
    assert (auto.severity, auto.where) == ("note", "auto")
    assert auto.message == "auto asks during calls: hosts at the same time have connections of their own."
    assert (shared.severity, shared.where) == ("warning", "shared")
    assert all(map(well_formed, (auto, shared)))


def test_a_server_that_adds_tools_while_it_runs_is_told_of_the_setting() -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"on_new": "show"},
        {"on_change": "warn"},
        {"on_change": {"accept": ["new"]}},
        {"on_change": {"accept": ["wider"]}},
    ]
    servers = [entry(f"s{at}", **way) for at, way in enumerate(ways)]
    found = list(
        of_growing({"s0", "s1", "s2", "s3", "s4", "gone"}, [*servers, servers[0].model_copy(update={"id": "t"})])
    )
    assert [one.where for one in found] == ["s0", "s4"]
    assert found[0].message == "s0 added tools while it was connected, and such tools wait for an approval."
    assert found[0].fix == 'If it does so by design, write `"on_new": "show"` in its entry.'
    assert all(map(well_formed, found))
