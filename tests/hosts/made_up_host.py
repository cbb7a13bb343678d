"""The program with one more host: `python -m tests.hosts.made_up_host ARGS`.

A new host is a file such as this one and a line in `HOSTS`.
"""

from typing import Final

from aggregator.hosts import every_host
from aggregator.hosts.entries import HostSpelling, plain_entry, read_entry
from aggregator.hosts.model import HostFile, HostLimits, HostProgram

_SPELLING: Final = HostSpelling("Teapot")
TEAPOT: Final = HostProgram(
    id="teapot",
    title="Teapot",
    source="https://teapot.example.com/docs",
    files=lambda machine: (HostFile(machine.home / ".teapot" / "servers.toml", "user", "toml", ("brews",)),),
    read=lambda entry: read_entry(entry, _SPELLING).fields,
    notes=lambda entry: read_entry(entry, _SPELLING).notes,
    write=plain_entry,
    limits=HostLimits("teapot-client", plain=True, tools=2),
    also=("kettle",),
    program="teapot-program",
    header_variable="<<NAME>>",
    reload="Refill Teapot.",
    shows="Its steam shows the entry.",
)

if __name__ == "__main__":
    every_host.HOSTS = (*every_host.HOSTS, TEAPOT)  # type: ignore[misc]  # before anything has read it
    from aggregator.cli import main

    main()
