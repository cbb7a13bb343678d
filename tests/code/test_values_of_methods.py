"""Programs with methods as values and with small modules, which print in the sandbox what they print in Python."""

from typing import Final

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_first_tries import run

PROGRAMS: Final[dict[str, str]] = {
    "methods_as_values": r"""
import re
from datetime import datetime, date

isip = re.compile(r"\d+\.\d+").match
print([x for x in ["1.2", "a"] if isip(x)])
seen = set()
add = seen.add
add(1)
print(seen)
print(list(map("{:>5}|".format, [1, 22])), list(map(str.title, ["ab"])), list(map(", ".join, [["a", "b"]])))
print(list(map(date.fromisoformat, ["2026-01-01"])), max(map(datetime.fromisoformat, ["2026-01-01T00:00:00"])))
key = {"a": 1}.pop
print(key("a"))
print(
    list(map(bytes.fromhex, ["61"])),
    list(map(dict.fromkeys, ["ab"])),
    list(map(datetime.fromtimestamp, [172_800]))[0].year,
)
""",
    "methods_of_the_program": r"""
class A:
    def __init__(self):
        self._x = [1]

    @property
    def count(self):
        return len(self._x)

    @property
    def title(self):
        return "T"

    def get(self, k):
        return k

    def match(self, v):
        return v == 1


a = A()
print(a.count, a.title, list(map(a.get, [1])), list(filter(a.match, [1, 2])))
c = {"x": 2, "y": 1}
print(sorted(c, key=c.get), max(c, key=c.get))
""",
    "attributes_of_dicts": r"""
r = {"title": 1, "count": 2}
for n in (1,):
    try:
        print(r.title)
    except AttributeError as e:
        print("AE", e)
    try:
        print(r.count)
    except AttributeError as e:
        print("AE", e)


class D(dict):
    def __getattr__(self, k):
        return self[k]


d = D(title="t", count=4, match="m")
print(d.title, d.count, d.match)
""",
    "ascii": r"""
print(ascii("é\n'x"), ascii([1, "ü"]), f"{'é'!a}", "%a" % "é")
""",
    "parents": r"""
from pathlib import Path, PurePosixPath

x = PurePosixPath("/a/b/c.tar.gz")
print(
    [str(p) for p in x.parents],
    x.parents[1],
    [str(p) for p in PurePosixPath("a/b").parents],
    list(PurePosixPath(".").parents),
    x.stem,
    x.suffixes,
    x.with_suffix(".x"),
    x.with_name("z"),
)
for p in Path("src/app/main.py").parents:
    print(p)
""",
    "addresses": r"""
import ipaddress

a = ipaddress.ip_address("10.0.0.7")
n = ipaddress.ip_network("10.0.0.0/29")
print(
    a,
    a in n,
    a.is_private,
    n.num_addresses,
    [str(h) for h in n.hosts()],
    sorted([ipaddress.ip_address(x) for x in ("10.0.0.10", "10.0.0.9")]),
    a.version,
    n.network_address,
    n.broadcast_address,
    n.prefixlen,
)
try:
    ipaddress.ip_address("10.0.0.300")
except ValueError as e:
    print(e)
""",
    "networks": r"""
import ipaddress
from ipaddress import ip_network, ip_address, IPv4Address

for t in (
    "::1",
    "2001:db8::1",
    "fe80::1",
    "8.8.8.8",
    "192.168.1.1",
    "127.0.0.1",
    "1:0:0:2::",
    "0.0.0.0",
    "224.1.1.1",
    "100.64.0.1",
    "169.254.1.1",
):
    a = ip_address(t)
    print(
        a,
        repr(a),
        a.is_private,
        a.is_loopback,
        a.is_multicast,
        a.is_link_local,
        a.is_unspecified,
        a.version,
        int(a),
        a.packed,
        a.exploded,
        isinstance(a, IPv4Address),
        a.is_global if a.version == 4 else "",
    )
print(
    sorted(["10.0.0.10", "10.0.0.9", "9.1.1.1"], key=ipaddress.ip_address),
    max(ip_address("1.1.1.1"), ip_address("1.1.1.2")),
    ip_address("1.1.1.1") < ip_address("2.1.1.1"),
    ip_address(1),
    {ip_address("1.1.1.1"): 1}[ip_address("1.1.1.1")],
    ip_address("1.1.1.1") + 5,
)
n = ip_network("10.1.0.0/16")
print(
    n,
    repr(n),
    [str(s) for s in n.subnets(new_prefix=18)],
    n.supernet(),
    ip_network("10.1.2.0/24").subnet_of(n),
    n.overlaps(ip_network("10.0.0.0/8")),
    n[5],
    n[-1],
    n.netmask,
    n.hostmask,
    ip_network("10.0.0.5/24", strict=False),
    ip_network("10.0.0.0/255.255.255.0"),
    n.with_netmask,
    n == ip_network("10.1.0.0/16"),
    ip_address("10.1.9.9") in n,
    "x" if ip_address("::1") in n else "no",
    len(list(ip_network("10.0.0.0/28"))),
    next(n.hosts()),
    [str(x) for x in ip_network("1.1.1.0/31").hosts()],
    [str(x) for x in ip_network("1.1.1.1").hosts()],
    sorted([n, ip_network("9.0.0.0/8")]),
)
v6 = ip_network("2001:db8::/126")
print(v6, v6.num_addresses, list(v6), list(v6.hosts()), ip_address("2001:db8::2") in v6)
for bad in ("1.2.3", "1.2.3.4.5", "01.2.3.4", "a::b::c", "1.2.3.4/24", "", "::12345", "1:2:3:4:5:6:7:8:9"):
    try:
        print(ip_address(bad))
    except ValueError as e:
        print(e)
for bad in ("10.0.0.1/24", "10.0.0.0/33", "x/8", "10.0.0.0/x"):
    try:
        print(ip_network(bad))
    except ValueError as e:
        print(e)
print(
    list(
        ipaddress.collapse_addresses(
            [
                ip_network("10.0.0.0/25"),
                ip_network("10.0.0.128/25"),
                ip_network("10.0.0.4/30"),
                ip_network("11.0.0.0/8"),
            ]
        )
    )
)
for h in ip_network("10.0.0.0/30").hosts():
    print(h)
for h in ip_network("10.0.0.0/30"):
    print(h, end=" ")
if ip_address("0.0.0.0"):
    print("true")
groups = {}
for ip in map(ipaddress.ip_address, ["10.0.0.1", "8.8.8.8"]):
    groups.setdefault("private" if ip.is_private else "public", []).append(str(ip))
print(groups)
""",
    "macs": r"""
import hmac, hashlib, zlib, binascii

for k in (b"k", b"x" * 100):
    print(
        hmac.new(k, b"m", hashlib.sha256).hexdigest(),
        hmac.new(k, b"m", "sha512").hexdigest()[:9],
        hmac.new(k, msg=b"m", digestmod=hashlib.sha1).digest(),
    )
print(
    hmac.compare_digest("a", "a"),
    zlib.crc32(b"hello"),
    zlib.adler32(b"hello"),
    binascii.hexlify(b"a"),
    hmac.digest(b"k", b"m", "sha256").hex(),
)
h = hmac.new(b"k", digestmod="md5")
h.update(b"m")
print(h.hexdigest())
""",
    "hooks": r"""
import json


class O:
    def __init__(self, d):
        self.d = d


print(
    json.loads('{"a": [{"b": 1}, 2]}', object_hook=lambda d: sorted(d.items())),
    json.loads('{"a": {"b": 1}}', object_hook=O).d["a"].d,
    json.loads("[1]", object_hook=O),
)
from types import SimpleNamespace

x = json.loads('{"a": {"b": [ {"c": 5} ]}}', object_hook=lambda d: SimpleNamespace(**d))
print(x.a.b[0].c)
""",
    "reversed": r"""
class Stack(list):
    def push(self, x):
        self.append(x)
s = Stack([1, 2, 3])
print(list(reversed(s)), s)
class Deck:
    def __init__(self):
        self.cards = [1, 2, 3]
    def __len__(self):
        return 3
    def __getitem__(self, at):
        return self.cards[at]
print(list(reversed(Deck())), [card for card in reversed(Deck())])
class Pair:
    def __init__(self):
        self.items = [1, 2]
    def __reversed__(self):
        return iter(self.items[::-1])
    def __iter__(self):
        return iter(self.items)
print(list(reversed(Pair())), [x for x in reversed(Pair())], list(reversed([1, 2])), "".join(reversed("ab")))
for x in reversed(Pair()):
    print(x)
class Countdown:
    def __init__(self, start):
        self.start = start
    def __iter__(self):
        yield from range(self.start)
    def __reversed__(self):
        n = self.start
        while n:
            n -= 1
            yield n
print(list(reversed(Countdown(3))), list(Countdown(3)))
for n in reversed(Countdown(2)):
    print(n)
class Named(dict):
    def first(self):
        return next(iter(self))
d = Named(a=1, b=2)
print(list(reversed(d)), list(reversed({"x": 1, "y": 2})))
class Plain:
    pass
try:
    reversed(Plain())
except TypeError as error:
    print(error)
""",
    "methods_of_bases": r"""
class Dot(dict):
    __getattr__ = dict.get
d = Dot({"a": 1, "title": "t"})
print(d.a, d.title, d.missing, d["a"], len(d), d)
print(getattr(d, "a"), d.get("zz", 5), [one.a for one in map(Dot, [{"a": 1}, {"a": 2}])])
class Strict(dict):
    __getattr__ = dict.__getitem__
s = Strict(a=2)
print(s.a)
try:
    s.b
except KeyError as error:
    print("KeyError", error)
class Money:
    def __init__(self, n):
        self.n = n
    def __add__(self, other):
        return Money(self.n + getattr(other, "n", other))
    __radd__ = __add__
    label = str.upper
print(sum([Money(1), Money(2)]).n)
""",
}


@pytest.mark.parametrize("said", PROGRAMS)
async def test_a_program_prints_what_it_prints_in_python(
    sandbox: Sandbox, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(PROGRAMS[said], {"__name__": f"program_of_{said}"})  # noqa: S102 - the programs above
    assert await run(sandbox, PROGRAMS[said]) == capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("call_tool('orders').title", "AttributeError: 'dict' object has no attribute 'title'"),
        ("import struct", "Use int.from_bytes"),
        ("class D(dict):\n    __setattr__ = dict.__setitem__\n", "`__setattr__` of a class"),
        ("import json\njson.loads('{}', object_pairs_hook=list)", "object_hook, not object_pairs_hook"),
        ("import ipaddress\nstr(next(ipaddress.ip_network('10.0.0.0/8').hosts()))", "10.0.0.1"),
    ],
)
async def test_what_a_program_says(sandbox: Sandbox, code: str, text: str) -> None:
    assert text in await run(sandbox, code)
