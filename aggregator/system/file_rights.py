"""The groups of Windows that may read or change a file, from its access control list. Elsewhere, modes tell it."""

import ctypes
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

# sddl.h: groups that other people are in, by their sign in a text of a list, with their names and identifiers.
_GROUPS: Final = {
    "WD": ("Everyone", "S-1-1-0"),
    "AU": ("Authenticated Users", "S-1-5-11"),
    "BU": ("Users", "S-1-5-32-545"),
    "BG": ("Guests", "S-1-5-32-546"),
    "AN": ("Anonymous", "S-1-5-7"),
    "IU": ("Interactive", "S-1-5-4"),
    "NU": ("Network", "S-1-5-2"),
}
_IDENTIFIERS: Final = {identifier: sign for sign, (_, identifier) in _GROUPS.items()}
_RIGHTS: Final = {
    **{"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "FX": 0x1200A0},
    **{"GA": 0x1000_0000, "GR": 0x8000_0000, "GW": 0x4000_0000, "GX": 0x2000_0000},
    **{"CC": 0x1, "DC": 0x2, "LC": 0x4},
}
# The rights that let read the content, and that let change it.
_READS: Final = 0x1 | _RIGHTS["GR"] | _RIGHTS["GA"]
_WRITES: Final = 0x2 | 0x4 | _RIGHTS["GW"] | _RIGHTS["GA"]
# An entry that allows: its flags, its rights, and whom.
_ALLOWS: Final = re.compile(r"\(A;([A-Z]*);(\w*);[^;)]*;[^;)]*;([\w-]+)\)")
_NO_LIST: Final = "D:NO_ACCESS_CONTROL"
# accctrl.h, winnt.h: a file, and its list of access rights; sddl.h: the version of the text.
_FILE, _ACCESS_LIST, _VERSION = 1, 4, 1


class OpenTo(NamedTuple):
    """The groups of other people that may read a file, and that may change it: names, and identifiers for commands."""

    readers: tuple[tuple[str, str], ...] = ()
    writers: tuple[tuple[str, str], ...] = ()


CLOSED: Final = OpenTo()


def rights_of_others(path: Path) -> OpenTo:
    """Return the groups of other people with rights to a file; none if this is not Windows, or if it does not tell."""
    text = _access_list(str(path))
    return CLOSED if text is None else read_access_list(text)


def read_access_list(text: str) -> OpenTo:
    """Return the groups of other people in an access control list, as Windows writes it (SDDL)."""
    if _NO_LIST in text:
        return OpenTo((_GROUPS["WD"],), (_GROUPS["WD"],))
    allowed = list(_allowed(text))
    return OpenTo(*(tuple(_GROUPS[one] for one in _GROUPS if _has(allowed, one, mask)) for mask in (_READS, _WRITES)))


def said_of(groups: Sequence[tuple[str, str]]) -> str:
    """Return the names of groups as a sentence has them."""
    return " and ".join(f"`{name}`" for name, _ in groups)


def _has(allowed: list[tuple[str, int]], sign: str, mask: int) -> bool:
    return any(one == sign and rights & mask for one, rights in allowed)


def _allowed(text: str) -> Iterator[tuple[str, int]]:
    for flags, rights, whom in _ALLOWS.findall(text):
        inherited_only = "IO" in {flags[at : at + 2] for at in range(0, len(flags), 2)}
        if not inherited_only:
            yield _IDENTIFIERS.get(whom, whom), _mask(rights)


def _mask(rights: str) -> int:
    if rights.startswith("0x"):
        return int(rights, 16)
    mask = 0
    for at in range(0, len(rights), 2):
        mask |= _RIGHTS.get(rights[at : at + 2], 0)
    return mask


def _access_list(path: str) -> str | None:
    """Return the access control list of a file as text; None if the system does not tell it."""
    library: Any = getattr(ctypes, "WinDLL", None)
    if library is None:
        return None
    advapi, kernel = library("advapi32"), library("kernel32")
    kernel.LocalFree.argtypes = (ctypes.c_void_p,)
    descriptor, text = ctypes.c_void_p(), ctypes.c_void_p()
    asked = (ctypes.c_wchar_p(path), _FILE, _ACCESS_LIST, None, None, None, None, ctypes.byref(descriptor))
    if advapi.GetNamedSecurityInfoW(*asked) != 0:
        return None
    try:
        written = advapi.ConvertSecurityDescriptorToStringSecurityDescriptorW(
            descriptor, _VERSION, _ACCESS_LIST, ctypes.byref(text), None
        )
        return ctypes.wstring_at(text) if written and text else None
    finally:
        kernel.LocalFree(text)
        kernel.LocalFree(descriptor)
