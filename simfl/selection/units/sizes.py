"""Which sizes fit together, and what to say when they do not."""

from collections.abc import Iterable
from math import isqrt

from simfl.core.errors import amount, there_are

Problem = tuple[str, str]
"""(field, message)."""


def at_most_clients(k: int, clients: int) -> list[Problem]:
    """Problems of asking for ``k`` of ``clients``."""
    if k <= clients:
        return []
    return [("k", f"is {k} but {there_are(clients, 'client')}; the nearest valid value is {clients}")]


def group_problems(k: int, clients: int) -> list[Problem]:
    """Problems of splitting ``clients`` into groups of ``k``."""
    if problems := at_most_clients(k, clients):
        return problems
    if clients % k == 0:
        return []
    why = f"{amount(clients, 'client')} cannot be split into groups of {k}"
    return [("k", f"is {k} but {why}; {_nearest(k, _divisors(clients))}")]


def unit_problems(k: int, T: int, clients: int, halves: bool) -> list[Problem]:
    """Problems of selecting ``k`` of ``clients`` in units of ``T``, a unit being two half-batches if ``halves``."""
    step = 2 if halves else 1
    fitting = [size for size in _divisors(clients) if size % step == 0]
    if not fitting:
        near = f"are {clients - 1} and {clients + 1}" if clients > 1 else "is 2"
        return [("T", f"must be even and divide the {clients} clients; the nearest valid numbers of clients {near}")]
    if T % step or clients % T:
        split = f"{amount(clients, 'client')} cannot be split into units of {T}"
        why = "two half-batches make a unit, so it must be even" if T % step else split
        return [("T", f"is {T} but {why}; {_nearest(T, [size for size in fitting if k % size == 0] or fitting)}")]
    if k > clients:
        return at_most_clients(k, clients)
    if k % T:
        other = _nearest(T, [size for size in fitting if k % size == 0])
        near = _nearest(k, [size for size in (k - k % T, k - k % T + T) if T <= size <= clients])
        return [("k", f"is {k}, no multiple of T = {T}; {near}" + (f"; for T {other}" if other else ""))]
    return []


def order_problems(shuffle: bool | tuple[int, ...], clients: int) -> list[Problem]:
    """Problems of assigning clients to units in an order that is given."""
    if isinstance(shuffle, bool) or sorted(shuffle) == list(range(clients)):
        return []
    missing = sorted(set(range(clients)) - set(shuffle))
    why = f"client {missing[0]} is not in it" if missing else f"it has {len(shuffle)} entries"
    return [("shuffle", f"must be true, false, or all clients 0 to {clients - 1} once, in the order of units: {why}")]


def _divisors(n: int) -> list[int]:
    small = [i for i in range(1, isqrt(n) + 1) if n % i == 0]
    return sorted({*small, *(n // i for i in small)})


def _nearest(value: int, valid: Iterable[int]) -> str:
    valid = list(valid)
    below = [max(candidates)] if (candidates := [v for v in valid if v < value]) else []
    above = [min(candidates)] if (candidates := [v for v in valid if v > value]) else []
    if not (near := below + above):
        return ""
    if len(near) == 1:
        return f"the nearest valid value is {near[0]}"
    return f"the nearest valid values are {near[0]} and {near[1]}"
