"""`scripts/bench`: the ratios in the benchmarks' README are read as they are written, and a tenth is allowed."""

from benchmarks.pinned import HEADS
from benchmarks.ratios import BEGIN, END, PAGE, RATIOS, fallen, kept, of_rows, with_table
from benchmarks.report import Table


def rows(rate: float, p50: float, processor: float) -> list[list[str]]:
    figures = [*(f"{ratio:.3f}" for ratio in (rate, p50, 3.0, processor)), ""]
    return [
        ["HTTP to stdio", "16", "relay A", "modern", "1", "1-1", "1", "1", "1", *["1.000"] * 4, ""],
        ["HTTP to stdio", "16", "aggregator", "modern", "1", "1-1", "1", "1", "1", *figures],
        ["HTTP to stdio", "16", "aggregator", "legacy", "1", "1-1", "1", "1", "1", *["9.000"] * 4, ""],
    ]


def test_the_page_holds_every_ratio() -> None:
    told = kept(PAGE.read_text(encoding="utf-8"))
    meta_tools = [f"{tool}, {n}" for tool in ("call_tool", "search_tools") for n in ("1 server", "93 servers")]
    ways = ("HTTP to stdio", "HTTP to HTTP", *meta_tools)
    # Written since there are such rows.
    later = ("search_tools anew", "call_tool, spelled", "direct", "/v1", "a key and limits", "flow rules")
    servers = ("1 server", "93 servers")
    anew = {(f"{way}, {n}", in_flight) for way in later for n in servers for in_flight in ("1", "16")}
    assert {place[:2] for place in told} - anew == {(way, in_flight) for way in ways for in_flight in ("1", "16")}
    assert {place[2] for place in told} >= set(RATIOS) - {"CPU of direct"}


def test_what_is_written_is_read_again() -> None:
    page = f"# Before\n\n{BEGIN}\n{END}\n\n# After\n"
    for table in (rows(0.5, 1.3, 2.0), rows(0.6, 1.2, 1.9)):
        page = with_table(page, Table("Pinned calls", HEADS, table), "Taken on commit 1234567.")
        assert kept(page) == of_rows(HEADS, table)
    assert page.startswith("# Before\n")
    assert page.endswith("\n# After\n")
    assert page.count("Taken on") == 1


def test_a_ratio_to_the_direct_call_is_one_of_them() -> None:
    over_v1 = [["/v1, 1 server", "1", "aggregator", "v1", "1", "1-1", "1", "1", "1", *["2.000"] * 4, "1.250"]]
    told = of_rows(HEADS, over_v1)
    assert told["/v1, 1 server", "1", "CPU of direct"] == 1.25
    worse = [[*over_v1[0][:-1], "1.500"]]
    assert list(fallen(told, of_rows(HEADS, worse))) == [
        "/v1, 1 server, 1 in flight: CPU of direct was 1.250 and is 1.500"
    ]


def test_a_ratio_may_be_worse_by_a_tenth() -> None:
    before = of_rows(HEADS, rows(0.5, 1.3, 2.0))
    assert not list(fallen(before, of_rows(HEADS, rows(0.46, 1.4, 2.2))))
    assert not list(fallen(before, of_rows(HEADS, rows(5.0, 0.1, 0.2))))
    assert list(fallen(before, of_rows(HEADS, rows(0.44, 1.46, 2.25)))) == [
        "HTTP to stdio, 16 in flight: calls/s of A was 0.500 and is 0.440",
        "HTTP to stdio, 16 in flight: p50 of A was 1.300 and is 1.460",
        "HTTP to stdio, 16 in flight: CPU of A was 2.000 and is 2.250",
    ]
