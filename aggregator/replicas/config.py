"""The section `replicas`: several processes that serve as one."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator

from aggregator.config.fields import ConfigModel


class ReplicasConfig(ConfigModel):
    """Several processes that share one database and serve as one: `aggregator serve` with `storage` in PostgreSQL, or
    with `--workers`."""

    group: str = Field(
        default="main",
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="The name of the group: replicas that serve as one have the same. Processes with other "
        "servers or policies on the same database need another.",
        examples=["eu-west"],
    )
    key: str | None = Field(
        default=None,
        min_length=32,
        repr=False,
        description="A secret of 32 characters or more that all replicas of the group share: it signs ids of "
        "sessions and requests between replicas. Default: a generated one in the database, so that anyone who can "
        "read the database could act as a replica.",
        examples=["${AGGREGATOR_REPLICAS_KEY:-a secret of 32 or more characters}"],
    )
    listen: str | None = Field(
        default=None,
        description="The address at which this replica listens for the others, as `HOST:PORT`; never open this "
        "port to hosts. Port 0 takes a free one; several workers take one port after another. "
        "Default: a free port of `http.host`.",
        examples=["0.0.0.0:8643"],
    )
    address: str | None = Field(
        default=None,
        description="The address by which the other replicas reach `listen`. Default: the address in `listen`; if "
        "that is every address, the one of this machine's name.",
        examples=["http://10.0.0.7:8643"],
    )

    @field_validator("listen")
    @classmethod
    def _listen(cls, listen: str | None) -> str | None:
        if listen is not None and split_listen(listen) is None:
            raise ValueError("expected HOST:PORT, such as 0.0.0.0:8643 or [::]:8643")
        return listen

    @field_validator("address")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            parts = urlsplit(address)
            plain = parts.scheme in ("http", "https") and parts.hostname and parts.port and parts.path in ("", "/")
        except ValueError:
            plain = None
        if not plain or parts.username is not None or parts.query or parts.fragment:
            raise ValueError("expected http://HOST:PORT or https://HOST:PORT")
        return address.rstrip("/")


def split_listen(listen: str) -> tuple[str, int] | None:
    """Return host and port of `HOST:PORT`; None if it is not of that form. An IPv6 address stands in brackets."""
    try:
        parts = urlsplit(f"//{listen}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (host, port) if host and port is not None and parts.netloc == listen and "@" not in listen else None
