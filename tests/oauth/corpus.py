"""Addresses that lead, or seem to lead, to private networks: in numbers, in names, inside other addresses, misspelt."""

from typing import Final

# Names that a peer could use, with what its name service says of them.
NAMES: Final = {
    "private.example.com": ["10.1.2.3"],
    "loopback.example.com": ["127.0.0.1"],
    "six.example.com": ["::1"],
    "mixed.example.com": ["93.184.216.34", "192.168.0.10"],
    "mixed-six.example.com": ["2606:2800:220:1:248:1893:25c8:1946", "fd00::5"],
    "metadata.example.com": ["169.254.169.254"],
    "mapped.example.com": ["::ffff:10.0.0.1"],
    "nat64.example.com": ["64:ff9b::a00:1"],
    "carrier.example.com": ["100.64.0.1"],
    "link.example.com": ["fe80::1%eth0"],
    "multicast.example.com": ["224.0.0.1"],
    "nothing.example.com": ["0.0.0.0"],  # noqa: S104 - an address that must not be asked
    "6to4.example.com": ["2002:a00:1::1"],
    "teredo.example.com": ["2001:0:4136:e378:8000:63bf:f5ff:fffe"],
    "isatap.example.com": ["2606:2800:220:1:0:5efe:10.0.0.1"],
    "site.example.com": ["fec0::1"],
    "compatible.example.com": ["::10.0.0.1"],
    "translated.example.com": ["::ffff:0:10.0.0.1"],
    "local-nat64.example.com": ["64:ff9b:1::a00:1"],
    "127.0.0.1.nip.example.com": ["127.0.0.1"],
    "localtest.example.com": ["127.0.0.1"],
    "internal": ["172.16.0.1"],
    "metadata.google.internal": ["169.254.169.254"],
}
HOSTS: Final = [
    *NAMES,
    *(
        "localhost",
        "LOCALHOST",
        "localhost.",
        "localhost..",
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "127.1.2.3",
    ),
    *("127.255.255.254", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "0177.1"),
    *("127.0.0.0x1", "127.0.0.01", "00127.0.0.1", "127.0.0.1.0", "4294967297", "0", "0.0.0.0", "0x0", "00", "0.0"),  # noqa: S104
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "169.254.0.1"),
    *("2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "100.64.0.1", "100.127.255.255"),
    *("192.0.0.170", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]"),
    *("[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]"),
    *("[2002:a00:1::1]", "[2001:0:a00:1::]", "[fe80::1]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[fc00::1]"),
    *(
        "[fd12:3456:789a::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[100::1]",
        "[::ffff:0:127.0.0.1]",
    ),
    *("[2001:db8::5efe:808:808]", "[2002:808:808::5efe:808:808]"),
    *("[2606:2800:220:1:0:5efe:7f00:1]", "[2606:2800:220:1:200:5efe:c0a8:101]", "[::ffff:169.254.169.254]"),
    *("user@127.0.0.1", "example.com@127.0.0.1", "example.com:443@127.0.0.1", "127.0.0.1#@example.com"),
    *("127.0.0.1\\@example.com", "example.com\\@127.0.0.1", "127.0.0.1%2f@example.com", "%31%32%37.0.0.1"),
    *("127。0。0。1", "127.0.0.1", "①②⑦.⓪.⓪.①", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "loc\u00adalhost", "localhost\u3002", "127.0.0.1\t"),
    *(" 127.0.0.1", "127.0.0.1\r\nHost: example.com", "127.0.0.1 example.com", "", ".", "..", "-", "[127.0.0.1]", "[]"),
    *(
        "local_host\x00",
        "127.0.0.1;example.com",
        "127.0.0.1,example.com",
        "[::1",
        "::1",
        "127.0.0.1:x",
        "1.2.3.4:99999",
    ),
]
ADDRESSES: Final = [
    *(f"https://{host}/x" for host in HOSTS),
    *(f"http://{host}:80/" for host in ("example.com", "127.0.0.1", "localhost", "[::1]", "private.example.com")),
    *("file:///etc/passwd", "ftp://10.0.0.1/", "gopher://127.0.0.1:6379/_x", "//127.0.0.1/", "https:/127.0.0.1/"),
    *("https:127.0.0.1", "https:///127.0.0.1", "HTTPS://127.0.0.1/", "javascript:alert(1)", "data:,x", "unix:/run/x"),
    *("http+unix://%2Frun%2Fx/", "https://127.0.0.1?x", "https://127.0.0.1#x", f"https://{'a' * 3000}/"),
]
