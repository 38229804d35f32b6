"""Addresses of other processes: which of them are on this machine, and which may be spoken to."""

import ipaddress

from simfl.errors import SimflError

__all__ = ["check_scheduler", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_scheduler(address: str, insecure: bool = False) -> None:
    """Refuses a Dask scheduler that would be spoken to over a network without encryption and authentication.

    Raises:
        SimflError: it is on another machine and its address does not begin with ``tls://``.
    """
    protocol, _, rest = address.rpartition("://")
    host = rest.rpartition(":")[0].strip("[]") or rest
    if insecure or protocol == "tls" or protocol in ("", "tcp") and is_loopback(host):
        return
    raise SimflError(
        f"{address}: Dask would run whatever anybody on that network sends; use tls:// with Dask's certificates, "
        "an address on this machine, or --insecure if the network is trusted"
    )
