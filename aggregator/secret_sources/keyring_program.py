"""Read one secret from the keyring: a separate program, which imports nothing of the aggregator.

`python -P keyring_program.py get NAME` prints `{"value": TEXT}`, `python -P keyring_program.py backend` prints
`{"backend": NAME}`; each prints `{"problem": WORD}` on failure. A keyring may wait for its user, ask for a password on
a terminal, or never answer: this program has no terminal, and is ended when its time is up.
"""

import json
import os
import sys
from typing import Final

SERVICE: Final = "aggregator"


def answer(arguments: list[str]) -> dict[str, str]:
    """Return the output of the program."""
    try:
        import keyring
        from keyring.backends import fail, null
        from keyring.errors import InitError, KeyringLocked, NoKeyringError
    except ImportError:
        return {"problem": "library"}
    try:
        backend = keyring.get_keyring()
        if isinstance(backend, fail.Keyring | null.Keyring):
            return {"problem": "none"}
        if arguments[0] == "backend":
            return {"backend": f"{type(backend).__module__}.{type(backend).__qualname__}"}
        value = backend.get_password(SERVICE, arguments[1])
    except NoKeyringError:
        return {"problem": "none"}
    except (KeyringLocked, InitError):
        return {"problem": "locked"}
    except Exception as error:
        # Its text may be anything; its type is ours to name.
        return {"problem": "failed", "type": type(error).__name__}
    return {"problem": "absent"} if value is None else {"value": value}


def main() -> None:
    """Print the answer, and nothing else that a keyring may print."""
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with out:
        json.dump(answer(sys.argv[1:]), out)


if __name__ == "__main__":
    main()
