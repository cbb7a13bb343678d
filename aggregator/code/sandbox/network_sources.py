"""The module `ipaddress` of programs: addresses and networks of both versions."""

from typing import Final

# A class for each version, as programs ask `isinstance`; `_x_comparing` has the instances compare and sort.
IPADDRESS: Final = r"""
def _ip_number_4(text):
    parts = text.split(".")
    number = 0
    if len(parts) != 4:
        return None
    for part in parts:
        digits = part.isascii() and part.isdigit() and len(part) < 4
        if not digits or int(part) > 255 or part[0] == "0" and part != "0":
            return None
        number = number * 256 + int(part)
    return number

def _ip_number_6(text):
    start, mark, last = text.rpartition(":")
    if "." in last:
        inner = _ip_number_4(last)
        if inner is None or not mark:
            return None
        text = "%s:%x:%x" % (start, inner >> 16, inner & 0xFFFF)
    before, mark, after = text.partition("::")
    left = before.split(":") if before else []
    right = after.split(":") if after else []
    lacking = 8 - len(left) - len(right)
    if (lacking < 1 if mark else lacking != 0):
        return None
    number = 0
    for part in left + ["0"] * (lacking if mark else 0) + right:
        if not 0 < len(part) < 5 or any([sign not in "0123456789abcdefABCDEF" for sign in part]):
            return None
        number = number * 65_536 + int(part, 16)
    return number

def _ip_text(number, version):
    if version == 4:
        return ".".join([str(number >> bits & 255) for bits in (24, 16, 8, 0)])
    parts = ["%x" % (number >> bits & 0xFFFF) for bits in range(112, -1, -16)]
    best = start = length = 0
    for at in range(9):
        if at < 8 and parts[at] == "0":
            length += 1
        else:
            if length > best:
                best, start = length, at - length
            length = 0
    if best < 2:
        return ":".join(parts)
    return ":".join(parts[:start]) + "::" + ":".join(parts[start + best:])

def _ip_blocks(version, *networks):
    made = []
    for network in networks:
        start, mark, prefix = network.partition("/")
        free = (32 if version == 4 else 128) - int(prefix)
        made.append((free, (_ip_number_4(start) if version == 4 else _ip_number_6(start)) >> free))
    return made

def _ip_within(number, blocks):
    for free, first in blocks:
        if number >> free == first:
            return True
    return False

# What is made when it is wanted: a network may have any number of addresses.
class _IpSeries:
    def __init__(self, made, first, last):
        self._made, self._next, self._last = made, first, last

    def __iter__(self):
        return self

    def __next__(self):
        if self._next > self._last:
            raise StopIteration
        self._next += 1
        return self._made(self._next - 1)

# Of each version: private, shared, loopback, multicast and link-local addresses.
_ip_kinds = (
    (
        _ip_blocks(4, "0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/29",
                   "192.0.0.170/31", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
                   "203.0.113.0/24", "240.0.0.0/4"),
        _ip_blocks(4, "100.64.0.0/10"), _ip_blocks(4, "127.0.0.0/8"), _ip_blocks(4, "224.0.0.0/4"),
        _ip_blocks(4, "169.254.0.0/16"),
    ),
    (
        _ip_blocks(6, "::1/128", "::/128", "::ffff:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
                   "2001:db8::/32", "2002::/16", "fc00::/7", "fe80::/10"),
        [], _ip_blocks(6, "::1/128"), _ip_blocks(6, "ff00::/8"), _ip_blocks(6, "fe80::/10"),
    ),
)

def _ip_address_class(version, bits, read, private, shared, loopback, multicast, link_local):
    class _Address:
        def __init__(self, address):
            if isinstance(address, int):
                number = address if 0 <= address < 1 << bits else None
            elif isinstance(address, bytes):
                number = int(address.hex() or "0", 16) if len(address) == bits // 8 else None
            else:
                number = read(str(address))
            if number is None:
                raise ValueError(f"{address!r} does not appear to be an IPv{version} address")
            self.version, self.max_prefixlen, self._number = version, bits, number
            self.compressed = _ip_text(number, version)
            self.exploded = self.compressed if version == 4 else ":".join(
                ["%04x" % (number >> at & 0xFFFF) for at in range(112, -1, -16)])
            self.packed = bytes.fromhex("%0*x" % (bits // 4, number))
            self.is_private = _ip_within(number, private)
            self.is_global = not (self.is_private or _ip_within(number, shared))
            self.is_loopback, self.is_multicast = _ip_within(number, loopback), _ip_within(number, multicast)
            self.is_link_local = _ip_within(number, link_local)
            self.is_unspecified = number == 0

        def __str__(self):
            return self.compressed

        def __repr__(self):
            return f"IPv{version}Address('{self.compressed}')"

        def __int__(self):
            return self._number

        def __hash__(self):
            return hash((version, self._number))

        def __eq__(self, other):
            return isinstance(other, _ip_addresses) and (other.version, other._number) == (version, self._number)

        def __lt__(self, other):
            if not isinstance(other, _Address):
                raise TypeError(f"{self} and {other} are not of the same version")
            return self._number < other._number

        def __add__(self, more):
            return _Address(self._number + more)

        def __sub__(self, less):
            return _Address(self._number - less)

    return _Address

def _ip_network_class(version, bits, address_class):
    class _Network:
        def __init__(self, address, strict=True):
            said = f"{address[0]}/{address[1]}" if isinstance(address, tuple) else str(address)
            start, mark, prefix = said.partition("/")
            if isinstance(address, int) or "/" not in said:
                prefix = str(bits)
            if "." in prefix and version == 4:
                mask = _ip_number_4(prefix)
                ones = None if mask is None else [len(("%032d" % 0)[:at]) for at in range(33)
                                                  if mask in ((1 << 32) - (1 << 32 - at), (1 << 32 - at) - 1)]
                prefix = str(ones[0]) if ones else ""
            if not (prefix.isascii() and prefix.isdigit() and int(prefix) <= bits):
                raise ValueError(f"{address!r} does not appear to be an IPv{version} network")
            first = address_class(int(start) if isinstance(address, int) else start)
            free = bits - int(prefix)
            number = first._number >> free << free
            if strict and number != first._number:
                raise ValueError(f"{said} has host bits set")
            self.version, self.max_prefixlen, self.prefixlen = version, bits, int(prefix)
            self.num_addresses = 1 << free
            self.network_address = address_class(number)
            self.broadcast_address = address_class(number + self.num_addresses - 1)
            self.netmask, self.hostmask = address_class((1 << bits) - (1 << free)), address_class((1 << free) - 1)
            self.with_prefixlen = self.compressed = f"{self.network_address}/{prefix}"
            self.with_netmask = f"{self.network_address}/{self.netmask}"
            self.is_private = self.network_address.is_private and self.broadcast_address.is_private
            self._first, self._last = number, number + self.num_addresses - 1

        def __str__(self):
            return self.compressed

        def __repr__(self):
            return f"IPv{version}Network('{self.compressed}')"

        def __hash__(self):
            return hash((version, self._first, self.prefixlen))

        def __eq__(self, other):
            return isinstance(other, _ip_networks) and other.compressed == self.compressed

        def __lt__(self, other):
            if not isinstance(other, _Network):
                raise TypeError(f"{self} and {other} are not of the same version")
            return (self._first, self.prefixlen) < (other._first, other.prefixlen)

        def __contains__(self, address):
            return isinstance(address, address_class) and self._first <= address._number <= self._last

        def __iter__(self):
            return _IpSeries(address_class, self._first, self._last)

        def __getitem__(self, at):
            number = self._first + at if at >= 0 else self._last + 1 + at
            if not self._first <= number <= self._last:
                raise IndexError("address out of range")
            return address_class(number)

        def hosts(self):
            free = bits - self.prefixlen
            return _IpSeries(address_class, self._first + (free > 1), self._last - (version == 4 and free > 1))

        def subnets(self, prefixlen_diff=1, new_prefix=None):
            prefix = min(self.prefixlen + prefixlen_diff, bits) if new_prefix is None else new_prefix
            if not self.prefixlen <= prefix <= bits:
                raise ValueError("new prefix must be longer")
            return _IpSeries(lambda at: _Network((address_class(self._first + (at << bits - prefix)), prefix)),
                             0, (1 << prefix - self.prefixlen) - 1)

        def supernet(self, prefixlen_diff=1, new_prefix=None):
            prefix = max(self.prefixlen - prefixlen_diff, 0) if new_prefix is None else new_prefix
            return _Network((self.network_address, prefix), strict=False)

        def subnet_of(self, other):
            return other._first <= self._first and self._last <= other._last

        def supernet_of(self, other):
            return other.subnet_of(self)

        def overlaps(self, other):
            return self.version == other.version and self._first <= other._last and other._first <= self._last

    return _Network

_ip_addresses = (
    _ip_address_class(4, 32, _ip_number_4, *_ip_kinds[0]),
    _ip_address_class(6, 128, _ip_number_6, *_ip_kinds[1]),
)
_ip_networks = (_ip_network_class(4, 32, _ip_addresses[0]), _ip_network_class(6, 128, _ip_addresses[1]))
_x_comparing.extend([_IpSeries, *_ip_addresses, *_ip_networks])

class _IpAddress:
    AddressValueError = ValueError
    NetmaskValueError = ValueError

    def __init__(self):
        self.IPv4Address, self.IPv6Address = _ip_addresses
        self.IPv4Network, self.IPv6Network = _ip_networks

    def ip_address(self, address):
        if isinstance(address, _ip_addresses):
            return address
        number = isinstance(address, int) and address < 1 << 32
        if number or isinstance(address, str) and _ip_number_4(address) is not None:
            return _ip_addresses[0](address)
        if isinstance(address, int) or isinstance(address, str) and _ip_number_6(address) is not None:
            return _ip_addresses[1](address)
        raise ValueError(f"{address!r} does not appear to be an IPv4 or IPv6 address")

    def ip_network(self, address, strict=True):
        if isinstance(address, _ip_networks):
            return address
        start = str(address[0] if isinstance(address, tuple) else address).partition("/")[0]
        for at, read in enumerate((_ip_number_4, _ip_number_6)):
            if read(start) is not None:
                try:
                    return _ip_networks[at](address, strict)
                except ValueError as error:
                    if "host bits" in str(error):
                        raise
        raise ValueError(f"{address!r} does not appear to be an IPv4 or IPv6 network")

    def collapse_addresses(self, addresses):
        merged = []
        for one in sorted([(ip._first, ip) if isinstance(ip, _ip_networks) else (ip._number, self.ip_network(str(ip)))
                           for ip in addresses], key=lambda pair: (pair[0], pair[1].prefixlen)):
            one = one[1]
            if merged and one.subnet_of(merged[-1]):
                continue
            merged.append(one)
            while len(merged) > 1 and merged[-1].prefixlen and merged[-2] == merged[-1]:
                merged.pop()
            while len(merged) > 1 and merged[-2].prefixlen == merged[-1].prefixlen > 0 and (
                merged[-2].supernet() == merged[-1].supernet()
            ):
                merged.append(merged.pop().supernet())
                merged.pop(-2)
        return iter(merged)

_added_ipaddress = _IpAddress()
"""
