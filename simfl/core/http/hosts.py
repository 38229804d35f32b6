"""Addresses of other processes: which of them are on this machine, and which may be spoken to."""

import ipaddress
import re
import socket
from collections.abc import Collection

from simfl.core.errors import SimflError


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_name(name: str) -> None:
    """Refuses what no Host header can be equal to.

    Raises:
        SimflError: it is neither a host's name nor an address.
    """
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?", name):
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise SimflError(
                f"--name {name!r}: a host's name or address is needed, without http:// and port, e.g. fl.example.org"
            ) from None


def is_server_name(header: str, host: str, arrived_at: str, names: Collection[str] = ()) -> bool:
    """Whether the Host header of a request names the server that it has reached.

    Names that anybody could point at this machine (DNS rebinding) are refused. Right are the host that the server was
    told to listen at, the address at which the connection has arrived, ``localhost`` on a loopback address, this
    machine's own name where the server listens elsewhere too, and the names given. No name server is asked.

    Args:
        header: value of the Host header, with or without a port.
        host: where the server was told to listen.
        arrived_at: this machine's end of the connection.
        names: further right ones.
    """
    name = _normal(header.rpartition(":")[0] if re.search(r":[0-9]*$", header) else header)
    arrived = _normal(arrived_at)
    right = {_normal(each) for each in (host, arrived_at, *names)}
    if is_loopback(arrived):
        right.add("localhost")
    if not is_loopback(host):
        machine = socket.gethostname().lower()
        right |= {machine, machine.partition(".")[0]}
    return name != "" and name in right


def _normal(host: str) -> str:
    """A name in lower case, or an address as it is commonly written."""
    host = host.strip().lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


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
