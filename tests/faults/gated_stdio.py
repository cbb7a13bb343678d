"""A raw server that starts once the file GATE exists: `python -I -S gated_stdio.py GATE MODE`.

While there is none it is silent, and ends with its stdin; with `no` in it the server ends, with anything else it is
`raw_stdio.py MODE`.
"""

import os
import select
import sys
from pathlib import Path


def main(gate: Path, mode: str) -> None:
    ended = select.poll()
    ended.register(0, 0)
    while not (gate.exists() and (word := gate.read_text())):
        if ended.poll(5):
            return
    if word == "no":
        sys.exit(1)
    raw = str(Path(__file__).with_name("raw_stdio.py"))
    os.execv(sys.executable, [sys.executable, "-I", "-S", raw, mode])  # noqa: S606 - in our place


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
