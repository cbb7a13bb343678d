"""The program that removes the containers of an aggregator that has ended: `python -I -S container_removal.py FOLDER`.

The reaper becomes it once it has ended all processes. The folder holds a note about each container (`containers.py`).
"""

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

# The files of a container: what removes it, and its id.
RECORD, CID = ".json", ".cid"
# Seconds that the removal of all containers may take.
REMOVED_WITHIN = 10.0
_LONGEST_ID = 200
_NULL = subprocess.DEVNULL


def remove_containers(folder: str) -> None:
    """Remove every container that is noted in a folder, all at once, and then the folder."""
    running = []
    try:
        records = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(RECORD)]
    except OSError:
        return
    for record in records:
        found = container_in(record)
        if found is None:
            continue
        command, env = removal(found)
        try:
            running.append(subprocess.Popen(command, env=env, stdin=_NULL, stdout=_NULL, stderr=_NULL))  # noqa: S603
        except OSError:
            return
    deadline = time.monotonic() + REMOVED_WITHIN
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return
    shutil.rmtree(folder, ignore_errors=True)


def container_in(record: str) -> dict[str, Any] | None:
    """Return the note about a container: its id or name, and how to remove it; None if none was started."""
    try:
        with open(record) as file:
            noted: dict[str, Any] = json.load(file)
        if "name" in noted:
            return {**noted, "id": noted["name"]}
        with open(noted["cid"]) as file:
            id = file.read(_LONGEST_ID).strip()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # An id of a container, and no option.
    return {**noted, "id": id} if id.isalnum() else None


def removal(noted: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the command that removes a container, and its environment."""
    return [*noted["command"], noted["id"]], noted["env"]


if __name__ == "__main__":
    remove_containers(sys.argv[1])
