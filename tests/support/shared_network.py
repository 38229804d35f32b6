"""Messages over several shared links, followed step by step with nothing of simfl, in exact fractions if they are."""

from math import inf
from typing import Any, NamedTuple

from tests.support.shared_link import overfull, sent_messages, wrong_ends


class Crossing(NamedTuple):
    """A message from ``begin_s`` on, of ``size`` bytes, at most ``most`` of them a second, over some links; it is gone
    at ``gone_s`` if it has not ended.
    """

    begin_s: Any
    size: Any
    most: Any
    links: frozenset[int]
    gone_s: Any = inf


def filled(flows: list[Crossing], capacity: list[Any]) -> list[Any]:
    """Max-min fair rates by the definition of progressive filling: all rise together; who meets the limit of its own
    line, or a link that is full, stays.
    """
    rate: list[Any] = [0] * len(flows)
    rising = set(range(len(flows)))
    used: list[Any] = [0] * len(capacity)
    while rising:
        steps = [flows[i].most - rate[i] for i in rising]
        on = [[i for i in rising if link in flows[i].links] for link in range(len(capacity))]
        steps += [(capacity[link] - used[link]) / len(those) for link, those in enumerate(on) if those]
        step = max(min(steps), 0)
        for i in rising:
            rate[i] += step
        for link, those in enumerate(on):
            used[link] += step * len(those)
        full = {link for link, those in enumerate(on) if those and capacity[link] - used[link] <= near(capacity[link])}
        rising = {i for i in rising if flows[i].most - rate[i] > near(flows[i].most) and not flows[i].links & full}
    return rate


def near(value: Any) -> Any:
    """What counts as nothing beside a value: nothing at all of a fraction."""
    return 1e-12 * value if isinstance(value, float) else 0


def unfair(flows: list[Crossing], capacity: list[Any], rate: list[Any]) -> list[str]:
    """What is not max-min fair of some rates: each flow is as fast as its line, or has a full link on which nobody is
    faster; and no link carries more than it can.
    """
    on = [[i for i in range(len(flows)) if link in flows[i].links] for link in range(len(capacity))]
    problems = [
        f"link {link} carries {sum(rate[i] for i in those)} of {capacity[link]}"
        for link, those in enumerate(on) if sum(rate[i] for i in those) > capacity[link] * (1 + 1e-9)
    ]  # fmt: skip
    for i, flow in enumerate(flows):
        if rate[i] > flow.most * (1 + 1e-9):
            problems.append(f"{flow} has {rate[i]}")
        is_narrow = rate[i] >= flow.most * (1 - 1e-9)
        is_last = any(
            sum(rate[j] for j in on[link]) >= capacity[link] * (1 - 1e-9)
            and rate[i] >= max(rate[j] for j in on[link]) * (1 - 1e-9)
            for link in flow.links
        )
        if not (is_narrow or is_last):
            problems.append(f"{flow} has only {rate[i]}")
    return problems


def ends_s(flows: list[Crossing], capacity: list[Any]) -> list[Any]:
    """When each has sent all; infinite for those gone before."""
    left, end, now = [flow.size for flow in flows], [inf] * len(flows), min((f.begin_s for f in flows), default=0)
    waiting = {i for i, flow in enumerate(flows) if flow.size > 0 and flow.gone_s > flow.begin_s}
    for i, flow in enumerate(flows):
        if not flow.size:
            end[i] = flow.begin_s
    while waiting:
        present = [i for i in sorted(waiting) if flows[i].begin_s <= now]
        rate = dict(zip(present, filled([flows[i] for i in present], capacity), strict=True))
        times = [flows[i].begin_s for i in waiting if flows[i].begin_s > now]
        later = min([*times, *(flows[i].gone_s for i in present), *(now + left[i] / rate[i] for i in present)])
        for i in present:
            left[i] -= rate[i] * (later - now)
            if left[i] <= 1e3 * near(flows[i].size):
                end[i] = later
            if end[i] == later or flows[i].gone_s <= later:
                waiting.discard(i)
        now = later
    return end


class Link(NamedTuple):
    """A shared link: its bytes per second "down" and "up", where it has such, and whose messages cross it."""

    capacity: dict[str, float]
    clients: frozenset[int]


def network_problems(
    events: list[dict[str, Any]], links: list[Link], most: list[float], latency_s: list[float] | None
) -> list[str]:
    """What is wrong with the messages of a run over shared links; of networks without jitter.

    Args:
        events: those of the run, all of them.
        links: shared by messages from and to the server.
        most: bytes/s of each client's own path without them.
        latency_s: of each client; None: only that no link carried more than it can.
    """
    problems = [each for link in links for each in overfull(events, link.capacity, link.clients)]
    for side in ("down", "up") if latency_s is not None else ():
        on = [link for link in links if side in link.capacity]
        capacity = [link.capacity[side] for link in on]
        sent, flows = sent_messages(events, side, latency_s), []
        for one in sent:
            crossed = frozenset(i for i, link in enumerate(on) if one.client in link.clients)
            fastest = min([most[one.client], *(capacity[i] for i in crossed)])
            size = float(one.size) if fastest < inf else 0.0
            flows.append(Crossing(one.begin_s, size, fastest if fastest < inf else 1.0, crossed, one.gone_s))
        problems += wrong_ends(side, sent, ends_s(flows, capacity))
    return problems
