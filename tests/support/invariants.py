"""What must hold of every run, recomputed from its tables alone; nothing of simfl is used."""

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf, isclose
from pathlib import Path
from typing import Any

import yaml

from tests.support.shared_link import link_problems, overfull
from tests.support.shared_network import Link, network_problems

SERVER = -1
NOT_SUMMED = {"failed", "late", "forfeited", "stale", "unrecovered"}


def violations(folder: Path) -> list[str]:
    """What does not hold of a finished run with ``trace: events``, in words.

    Args:
        folder: with rounds.csv, participation.csv, events.jsonl, clients.csv, scenario.yaml, summary.json and, where
            there are such, jobs.csv and phases.csv.
    """
    run = _Run(folder)
    rules = [*EVERYWHERE]
    if run.peers:
        rules += PEERS
    elif not run.jobs:
        rules += SYNCHRONOUS
    elif run.drawn:
        rules += [*ASYNCHRONOUS, *DRAWN]
    else:
        rules += [*ASYNCHRONOUS, *BUFFERED]
    return [f"{rule.__name__[1:]}: {found}" for rule in rules for found in rule(run)]


class _Run:
    def __init__(self, folder: Path) -> None:
        self.scenario = yaml.safe_load((folder / "scenario.yaml").read_text())
        self.summary = json.loads((folder / "summary.json").read_text())
        self.rounds = _table(folder / "rounds.csv")
        self.events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        self.cancelled = {event["job"] for event in self.events if event["event"] == "cancel" and "job" in event}
        self.phases = _table(folder / "phases.csv") if (folder / "phases.csv").exists() else []
        self.jobs = _table(folder / "jobs.csv") if (folder / "jobs.csv").exists() else []
        self.samples = [row.get("samples", 1) for row in _table(folder / "clients.csv")]
        self.latency_s = [row.get("latency_s", 0.0) for row in _table(folder / "clients.csv")]
        self.crossed = {side: [str(row.get(f"links_{side}") or "").split() for row in _table(folder / "clients.csv")]
                        for side in ("down", "up")}  # fmt: skip
        self.clients = self.scenario["clients"]
        self.training, self.selection = self.scenario["training"], self.scenario["selection"]
        self.learns = self.scenario["learning"]["name"] != "none"
        self.rows: list[dict[int, float]] = [{} for _ in self.rounds]
        self.circles: list[dict[int, dict[int, float]]] = [defaultdict(dict) for _ in self.rounds]
        for row in _table(folder / "participation.csv"):
            self.rows[row["round"]][row["client"]] = row["weight"]
            self.circles[row["round"]][row.get("aggregator", SERVER)][row["client"]] = row["weight"]
        self.peers = "aggregator" in (folder / "participation.csv").read_text().partition("\n")[0]
        arrivals = self.training.get("arrivals", {"name": "clock"})
        self.drawn = arrivals["name"] == "uniform_staleness"
        self.phased = (folder / "phases.csv").exists()
        self.standard = self.scenario.get("agents", {}).get("client", {"name": "standard"})["name"] == "standard"

    @property
    def capacity(self) -> dict[str, float]:
        """Bytes/s of the server's link "down" and "up", where it is shared."""
        server = self.scenario["network"].get("server")
        sides = {side: server.get(f"{side}_bytes_per_s") for side in ("down", "up")} if isinstance(server, dict) else {}
        return {side: limit for side, limit in sides.items() if limit is not None}

    @property
    def links(self) -> list[Link]:
        """The shared links: the server's, and those with names, of whose clients the paths tell in a tree."""
        named = self.scenario["network"].get("shared") or {}
        crossed = {name: _crossing(self.scenario["network"], link, self.clients) for name, link in named.items()}
        found = [Link(self.capacity, frozenset(range(self.clients)))] if self.capacity else []
        for name, link in named.items():
            up = link.get("up_bytes_per_s") or link["bytes_per_s"]
            for side, width in (("down", link["bytes_per_s"]), ("up", up)):
                told = frozenset(i for i, names in enumerate(self.crossed[side]) if name in names)
                found.append(Link({side: width}, told if crossed[name] is None else crossed[name]))
        return found

    @property
    def unit_size(self) -> int:
        if self.selection["name"] == "partition":
            return int(self.selection["k"])
        return int(self.selection.get("T", 1))

    @property
    def whole_units(self) -> bool:
        return not (self.training.get("partial") or self.training.get("on_failure") == "partial")

    def summed(self, clients: list[int]) -> set[int]:
        """Those whose updates can be in a sum: clients without samples cannot."""
        counts = self.learns or self.training["weighting"] == "samples"
        return {client for client in clients if self.samples[client] or not counts}


def _table(path: Path) -> list[dict[str, Any]]:
    with open(path, newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


# -- every run -------------------------------------------------------------------------------------


def _time_never_goes_back(run: _Run) -> Iterator[str]:
    times = [row["time_s"] for row in run.rounds]
    yield from (f"round {t + 1} ends before round {t}" for t, (a, b) in enumerate(pairwise(times)) if b < a)
    for event in run.events:
        for first, second in (("sent_s", "arrives_s"), ("start_s", "end_s")):
            if first in event and event[first] > event[second]:
                yield f"{event}"


def _links_carry_what_they_can(run: _Run) -> Iterator[str]:
    """Bytes on a shared link are conserved; without jitter every message ends exactly when fair sharing says."""
    network, capacity = run.scenario["network"], run.capacity
    if run.peers or run.drawn or not run.links:
        return
    if network.get("shared"):
        yield from _several_links_carry_what_they_can(run)
        return
    yield from overfull(run.events, capacity)
    own_lines = run.scenario["devices"].get("profiles") is not None
    known = network["name"] == "star" and network.get("jitter_s") is None and not own_lines
    if known and not (run.phased and run.jobs):
        width = network.get("bandwidth_bytes_per_s")
        for side in capacity:
            own = network.get("up_bandwidth_bytes_per_s") if side == "up" else None
            most = [inf if (own or width) is None else float(own or width)] * run.clients
            yield from link_problems(run.events, {side: capacity[side]}, most, run.latency_s)


def _several_links_carry_what_they_can(run: _Run) -> Iterator[str]:
    """The same of links with names; in a tree without jitter and lines of the clients to the second."""
    network = run.scenario["network"]
    for name, link in network["shared"].items():
        clients = _crossing(network, link, run.clients)
        for side in ("down", "up") if clients is not None else ():
            told = {i for i, names in enumerate(run.crossed[side]) if name in names}
            if told != clients:
                yield f"clients.csv has {sorted(told)} on '{name}', the tree {sorted(clients)}"
    own_lines = run.scenario["devices"].get("profiles") is not None
    known = network["name"] == "graph" and network.get("jitter_s") is None and not own_lines
    exact = known and not (run.phased and run.jobs)
    yield from network_problems(run.events, run.links, [inf] * run.clients, run.latency_s if exact else None)


def _crossing(network: dict[str, Any], link: dict[str, Any], clients: int) -> frozenset[int] | None:
    """The clients of a tree whose only path from the server leads over one of a link's edges; None of other graphs."""
    if network["name"] != "graph":
        return None
    edges = [edge[:2] if isinstance(edge, list) else [edge["src"], edge["dst"]] for edge in network["edges"]]
    server = network.get("server", "server")
    reached, fringe = {server["name"] if isinstance(server, dict) else server: False}, True
    while fringe:
        fringe = False
        for ends in edges:
            for here, there in (ends, ends[::-1]):
                if here in reached and there not in reached:
                    is_shared = any({here, there} == set(edge) for edge in link["edges"])
                    reached[there], fringe = reached[here] or is_shared, True
    return frozenset(i for i in range(clients) if reached[network["clients"][i]])


def _counts_follow_from_participation(run: _Run) -> Iterator[str]:
    counts, total = Counter(), 0
    for t, (row, members) in enumerate(zip(run.rounds, run.rows, strict=True)):
        counts.update(members.keys())
        total += len(members)
        shares = [counts[client] / (t + 1) for client in range(run.clients)]
        if row["round"] != t or row["cardinality"] != len(members) or row["skipped"] != int(not members):
            yield f"round {t}: {row['cardinality']} and skipped {row['skipped']}, but {sorted(members)}"
        if not isclose(row["mean_cardinality"], total / (t + 1)):
            yield f"round {t}: mean_cardinality is {row['mean_cardinality']}, not {total / (t + 1)}"
        if not isclose(row["fairness_gap"], max(shares) - min(shares), abs_tol=1e-12):
            yield f"round {t}: fairness_gap is {row['fairness_gap']}, not {max(shares) - min(shares)}"
        if row["failed"] < 0:
            yield f"round {t}: {row['failed']} failed"


def _summary_adds_up(run: _Run) -> Iterator[str]:
    for name in ("bytes_down", "bytes_up", "failed"):
        if name in run.summary and run.summary[name] != sum(row[name] for row in run.rounds):
            yield f"{name} is {run.summary[name]}"
    if run.summary["time_s"] != run.rounds[-1]["time_s"]:
        yield f"time_s is {run.summary['time_s']}"
    outcomes = Counter(job["outcome"] for job in run.jobs)
    if run.jobs and (
        run.summary["jobs"] != dict(outcomes)
        or run.summary["client_updates"] != sum(map(len, run.rows))
        or run.summary["wasted_updates"] != sum(outcomes[name] for name in NOT_SUMMED)
    ):
        yield f"jobs are {run.summary['jobs']}, not {dict(outcomes)}"


def _events_have_their_order(run: _Run) -> Iterator[str]:
    """Records of one instant never go back; a conversation's, or a job's, stand together where it ended."""
    now, t = 0.0, -1
    for event in run.events:
        match event["event"]:
            case "round_start":
                t += 1
                if event["round"] != t:
                    yield f"round {event['round']} starts after {t - 1} rounds"
            case "round_end":
                if event["round"] != t or event["time_s"] != run.rounds[t]["time_s"]:
                    yield f"{event} in round {t}"
                if event["cardinality"] != len(run.rows[t]):
                    yield f"{event}, but {len(run.rows[t])} are summed"
        if event["event"] == "cancel" and "job" not in event and run.jobs:
            continue  # of a protocol's talk, in whose block it stands
        if "time_s" in event:
            if event["time_s"] < now:
                yield f"{event} after {now} s"
            now = event["time_s"]
        elif (own := event.get("end_s", event.get("sent_s"))) > run.rounds[-1]["time_s"]:
            yield f"{event} happens after the last round, at {own} s"
    if t != len(run.rounds) - 1:
        yield f"events of {t + 1} of {len(run.rounds)} rounds"


def _phases_add_up(run: _Run) -> Iterator[str]:
    """What rounds.csv says of phases is in phases.csv; the rest of the bytes is the models' and updates'."""
    for t, row in enumerate(run.rounds):
        if "secagg_bytes" not in row:
            return
        mine = [phase for phase in run.phases if phase["round"] == t]
        spent = sum(phase["bytes_down"] + phase["bytes_up"] for phase in mine if phase["phase"] != "ask")
        if row["secagg_bytes"] != spent or row["bytes_down"] + row["bytes_up"] - spent < row["clear_bytes"]:
            yield f"round {t}: {row['secagg_bytes']} bytes of phases and {row['clear_bytes']} in clear, not {spent}"
        if row["secagg_failed"] != sum(phase["failure"] is not None for phase in mine):
            yield f"round {t}: {row['secagg_failed']} sums failed"
        for phase in mine:
            if not 0 <= phase["failed"] <= phase["asked"] - phase["answered"]:
                yield f"{phase}"
        others = {"setup", "prepare", "recover", "ask", "confirm", "agree", "show"}
        for name in {phase["phase"] for phase in mine} - others:
            if row[f"failed_{name}"] != sum(phase["failed"] for phase in mine if phase["phase"] == name):
                yield f"round {t}: {row[f'failed_{name}']} failed in {name}"
        if run.jobs and row["failed_upload"] > row["failed"]:
            yield f"round {t}: {row['failed_upload']} failed in their work, {row['failed']} in all"


EVERYWHERE: tuple[Callable[[_Run], Iterator[str]], ...] = (
    _time_never_goes_back, _counts_follow_from_participation, _summary_adds_up, _events_have_their_order,
    _phases_add_up, _links_carry_what_they_can,
)  # fmt: skip


# -- synchronous rounds ----------------------------------------------------------------------------


class _Round:
    """What the events say of one round."""

    def __init__(self, events: list[dict[str, Any]], row: dict[str, Any]) -> None:
        setup = [event["event"] for event in events].index("round_start")  # a protocol's messages before the first
        self.row, self.begin_s, self.end_s = row, events[setup]["time_s"], row["time_s"]
        self.selected = events[setup].get("selected")
        messages = [event for event in events if event["event"] == "message"]
        self.messages = messages
        announced = [m["sent_s"] for m in messages if m["kind"] == "announcement"]
        self.heard_s = min(announced, default=self.end_s)  # over a shared link they take a while to leave
        self.asked = [m["to"] for m in messages if m["kind"] == "model"]
        self.sent = {m["from"]: m for m in messages if m["kind"] == "update"}
        self.work = {e["client"]: e for e in events if e["event"] == "compute"}
        self.dead = {e["client"]: e for e in events if e["event"] == "compute" and e["completed"] is False}
        self.times = [event.get("sent_s", event.get("end_s", event.get("time_s"))) for event in events[setup:]]


def _rounds(run: _Run) -> Iterator[tuple[int, _Round]]:
    events: list[dict[str, Any]] = []
    for event in run.events:
        events.append(event)
        if event["event"] == "round_end":
            t = event["round"]
            yield t, _Round(events, run.rounds[t])
            events = []


def _work_ends(run: _Run, t: int, found: _Round) -> float:
    """When the server stopped waiting for updates: the round's end or, with phases, the last answer it waited for."""
    asks = ("agree", "crosscheck", "unmask")
    after = [phase["started_s"] for phase in run.phases if phase["round"] == t and phase["phase"] in asks]
    return min(after, default=found.heard_s)


def _quorum(run: _Run, found: _Round) -> float:
    """How many clients have to arrive in whole units; infinite where the server waits for all."""
    quorum = run.training.get("quorum")
    return inf if quorum is None else quorum * found.selected - 1e-9 if isinstance(quorum, float) else quorum


def _unit_ends(run: _Run, found: _Round) -> list[float]:
    """When each unit's last update arrives, for those of whom all have sent theirs; ascending."""
    size = run.unit_size if run.whole_units else 1
    units = [found.asked[i : i + size] for i in range(0, len(found.asked), size)]
    return sorted(max(found.sent[c]["arrives_s"] for c in unit) for unit in units if found.sent.keys() >= set(unit))


def _nobody_counts_who_has_not_arrived(run: _Run) -> Iterator[str]:
    for t, found in _rounds(run):
        end = _work_ends(run, t, found)
        for client in run.rows[t]:
            if client not in found.sent:
                yield f"round {t}: client {client} counts without an update"
            elif found.sent[client]["arrives_s"] > end:
                yield f"round {t}: client {client} counts at {end} s, arrives at {found.sent[client]['arrives_s']} s"
        if dead := found.dead.keys() & run.rows[t].keys():
            yield f"round {t}: {sorted(dead)} failed and count"


def _the_sum_is_what_the_rule_says(run: _Run) -> Iterator[str]:
    size = run.unit_size if run.whole_units else 1
    for t, found in _rounds(run):
        end = _work_ends(run, t, found)
        heard = {client for client, message in found.sent.items() if message["arrives_s"] <= end}
        units = [found.asked[i : i + size] for i in range(0, len(found.asked), size)]
        kept = [client for unit in units if heard.issuperset(unit) for client in unit]
        silent = set(found.asked) - heard - {m["from"] for m in found.messages if m["kind"] == "failure"
                                             and m["arrives_s"] <= end}  # fmt: skip
        late = len(silent) if sum(when <= end for when in _unit_ends(run, found)) * size >= _quorum(run, found) else 0
        lost = found.selected - len(heard) - late
        if found.row.get("late", 0) != late:
            yield f"round {t}: late is {found.row.get('late')}, not {late}"
        if run.training["on_failure"] == "abort" and (lost if not run.phased else len(found.asked) - len(heard) - late):
            kept = []
        if run.phased and not run.rows[t]:
            kept = []  # it could not be recovered
        if run.summed(kept) != run.rows[t].keys():
            yield f"round {t}: {sorted(run.rows[t])} count, not {sorted(run.summed(kept))}"
        if any(weight != 1 for weight in run.rows[t].values()):
            yield f"round {t}: weights {run.rows[t]}"
        if found.row["failed"] != lost:
            yield f"round {t}: failed is {found.row['failed']}, not {lost}"
        if run.selection["name"] == "batch_partition" and not run.selection.get("shuffle") and run.whole_units:
            batches = Counter(client // size for client in kept)
            if any(count != size for count in batches.values()):
                yield f"round {t}: broken batches in {kept}"


def _a_round_ends_when_it_must(run: _Run) -> Iterator[str]:
    if run.phased:
        return
    before = 0.0
    for t, found in _rounds(run):
        if found.begin_s != before:
            yield f"round {t} begins at {found.begin_s} s, not {before} s"
        before = found.end_s
        if not found.selected:
            if found.end_s != found.begin_s + run.training["skipped_round_s"]:
                yield f"round {t}: skipped, but ends at {found.end_s} s"
            continue
        answers = [m["arrives_s"] for m in found.messages if m["to"] == SERVER]
        ends = [found.begin_s + run.training["deadline_s"]] if run.training["deadline_s"] is not None else []
        if len(answers) == len(found.asked):
            ends.append(max(answers))
        size = run.unit_size if run.whole_units else 1
        ends += [when for i, when in enumerate(_unit_ends(run, found), 1) if i * size >= _quorum(run, found)][:1]
        if run.training["on_failure"] == "abort":
            ends += [m["arrives_s"] for m in found.messages if m["kind"] == "failure"]
        if not ends or found.heard_s != min(ends):
            yield f"round {t} ends at {found.heard_s} s, not {ends}"
        waits = bool(run.capacity.get("down") or run.scenario["network"].get("shared"))
        if found.heard_s < found.end_s and not waits:
            yield f"round {t} waits from {found.heard_s} to {found.end_s} s"


def _a_message_belongs_to_its_round(run: _Run) -> Iterator[str]:
    for t, found in _rounds(run):
        if not run.phased and len(found.asked) != found.selected or len(set(found.asked)) != len(found.asked):
            yield f"round {t}: {found.selected} selected, models to {found.asked}"
        if any(not found.begin_s <= when <= found.end_s for when in found.times):
            yield f"round {t}: something happens outside {found.begin_s} to {found.end_s} s"
        if run.standard and found.times != sorted(found.times):  # clients of their own write as they go
            yield f"round {t}: its events are not in the order of their times"
        answered = Counter(m["from"] for m in found.messages if m["kind"] in ("update", "failure"))
        if answered - Counter(found.asked):
            yield f"round {t}: answers of {answered}, asked were {found.asked}"


def _listens_until(found: _Round, answer: dict[str, Any], phases: list[dict[str, Any]]) -> float:
    """When the phase ended that an answer is of; of phases of one name, that of as many requests before."""
    kind, client = answer["kind"], answer["from"]
    same = [phase for phase in phases if phase["phase"] == kind]
    if len(same) == 1:
        return same[0]["ended_s"]
    answers = [m for m in found.messages if m["from"] == client and m["kind"] == kind]
    asked = [m for m in found.messages if m["to"] == client and m["kind"] == f"{kind} request"]
    before = [m for m in asked if m["arrives_s"] <= answer["sent_s"]]
    request = asked[answers.index(answer)] if len(asked) == len(answers) else before[-1]
    return [phase for phase in same if phase["started_s"] <= request["sent_s"]][-1]["ended_s"]


def _bytes_are_those_of_messages(run: _Run) -> Iterator[str]:
    for t, found in _rounds(run):
        phases = [phase for phase in run.phases if phase["round"] == t]
        phases.append({"phase": "update", "started_s": -inf, "ended_s": _work_ends(run, t, found)})
        down = sum(m["bytes"] for m in found.messages if m["to"] != SERVER)
        up = sum(m["bytes"] for m in found.messages if m["to"] == SERVER
                 and m["kind"] != "failure" and m["arrives_s"] <= _listens_until(found, m, phases))  # fmt: skip
        if (down, up) != (found.row["bytes_down"], found.row["bytes_up"]):
            yield f"round {t}: {found.row['bytes_down']} down, {found.row['bytes_up']} up; messages say {down}, {up}"


SYNCHRONOUS = (
    _nobody_counts_who_has_not_arrived, _the_sum_is_what_the_rule_says, _a_round_ends_when_it_must,
    _a_message_belongs_to_its_round, _bytes_are_those_of_messages,
)  # fmt: skip


# -- peers on a ring -------------------------------------------------------------------------------


def _circles(run: _Run) -> Iterator[tuple[int, _Round, dict[int, set[int]]]]:
    """Each round with those whose updates each client must have, its own included."""
    n = run.clients
    for t, found in _rounds(run):
        yield t, found, {client: {client, (client + 1) % n, (client - 1) % n} for client in range(n)}


def _peers_sum_their_circle(run: _Run) -> Iterator[str]:
    for t, _, circles in _circles(run):
        for client, circle in circles.items():
            members = run.circles[t].get(client, {})
            if members.keys() != run.summed(sorted(circle)) or set(members.values()) - {1}:
                yield f"round {t}: client {client} sums {members}, not {sorted(run.summed(sorted(circle)))}"


def _peers_have_what_they_sum(run: _Run) -> Iterator[str]:
    for t, found, circles in _circles(run):
        came = defaultdict(set)
        for message in found.messages:
            if found.begin_s <= message["sent_s"] and message["arrives_s"] <= found.end_s:
                came[message["to"]].add(message["from"])
        for client, circle in circles.items():
            if came[client] != circle - {client}:
                yield f"round {t}: client {client} has heard of {sorted(came[client])}"


def _a_ring_waits_for_its_last_message(run: _Run) -> Iterator[str]:
    before = 0.0
    for t, found in _rounds(run):
        if found.begin_s != before or found.end_s != max(m["arrives_s"] for m in found.messages):
            yield f"round {t} lasts from {found.begin_s} to {found.end_s} s"
        before = found.end_s
        for message in found.messages:
            work = found.work[message["from"]]
            if (work["start_s"], work["end_s"]) != (found.begin_s, message["sent_s"]):
                yield f"round {t}: {message} without its work"


def _bytes_are_those_between_peers(run: _Run) -> Iterator[str]:
    for t, found in _rounds(run):
        told = (found.row["bytes_down"], found.row["bytes_up"], found.row["failed"])
        if told != (0, sum(m["bytes"] for m in found.messages), 0) or len(found.messages) != 2 * run.clients:
            yield f"round {t}: bytes and failures are {told}"


PEERS = (
    _peers_sum_their_circle, _peers_have_what_they_sum, _a_ring_waits_for_its_last_message,
    _bytes_are_those_between_peers,
)  # fmt: skip


# -- asynchronous rules ----------------------------------------------------------------------------


def _staleness_weight(run: _Run, age: float) -> float:
    rule = run.training["staleness"]
    match rule["name"]:
        case "polynomial":
            return float((1 + age) ** -rule["alpha"])
        case "hinge":
            return 1.0 if age <= rule["b"] else 1 / (rule["a"] * (age - rule["b"]) + 1)
    return 1.0


def _fates(run: _Run) -> list[list[dict[str, Any]]]:
    """The jobs whose fates each round decided: those of a round end with the aggregated ones."""
    fates: list[list[dict[str, Any]]] = [[] for _ in run.rounds]
    t = 0
    for job, after in zip(run.jobs, [*run.jobs[1:], None], strict=True):
        fates[t].append(job)
        ended = job["outcome"] == "aggregated" and (after is None or after["round"] != job["round"])
        if ended and t + 1 < len(fates):
            t += 1
    return fates


def _rows_are_the_aggregated_jobs(run: _Run) -> Iterator[str]:
    aggregated: dict[int, dict[int, int]] = defaultdict(dict)
    for job in run.jobs:
        if job["outcome"] == "aggregated":
            if job["client"] in aggregated[job["round"]]:
                yield f"round {job['round']} holds client {job['client']} twice"
            aggregated[job["round"]][job["client"]] = job["staleness"]
    scale = _staleness_weight(run, run.training["reference_staleness"])
    for t, members in enumerate(run.rows):
        if run.summed(list(aggregated[t])) != members.keys():
            yield f"round {t}: {sorted(members)} count, not {sorted(run.summed(list(aggregated[t])))}"
        for client, weight in members.items():
            age, most = aggregated[t].get(client, -1), run.training["max_staleness"]
            clipped = age if most is None else min(age, most)
            if not _is_weight(run, weight, _staleness_weight(run, clipped) / scale):
                yield f"round {t}: client {client} of staleness {age} counts {weight}"
            if most is not None and run.training["too_stale"] == "discard" and age > most:
                yield f"round {t}: client {client} is {age} old"
        ages = [aggregated[t].get(client, -1) for client in members]
        if members and not isclose(run.rounds[t]["staleness_mean"], sum(ages) / len(ages)):
            yield f"round {t}: staleness_mean is {run.rounds[t]['staleness_mean']}"
        if members and run.rounds[t]["staleness_max"] != max(ages):
            yield f"round {t}: staleness_max is {run.rounds[t]['staleness_max']}"


def _is_weight(run: _Run, weight: float, exact: float) -> bool:
    """Where a protocol weighs by whole numbers, one of the two beside the exact weight."""
    whole = run.scenario["secagg"].get("staleness_scale")
    if whole is None:
        return isclose(weight, exact, rel_tol=1e-12)
    return (weight * whole).is_integer() and abs(weight - exact) * whole < 1


def _staleness_is_round_minus_version(run: _Run) -> Iterator[str]:
    own = run.training["unit_weights"] == "own" and not run.drawn
    for job in run.jobs:
        if job["outcome"] == "aggregated":
            age = job["round"] - job["version"]
            if not 0 <= job["staleness"] <= age or not own and job["staleness"] != age:
                yield f"{job}"


def _failed_is_what_the_jobs_say(run: _Run) -> Iterator[str]:
    for t, jobs in enumerate(_fates(run)):
        lost = sum(job["outcome"] in NOT_SUMMED for job in jobs)
        if run.rounds[t]["failed"] != lost:
            yield f"round {t}: failed is {run.rounds[t]['failed']}, not {lost}"


def _units_are_whole(run: _Run) -> Iterator[str]:
    """A unit shares its selection and its batch; whoever of it is summed, all of it is, in one round."""
    size = run.unit_size
    if not run.whole_units or run.selection.get("shuffle") or size == 1:
        return
    units: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    half = run.selection["name"] == "half_partition"
    for job in run.jobs:
        if run.selection["name"] in ("batch_partition", "partition", "half_partition"):
            units[job["job"] >> 32, job["client"] // (size // 2 if half else size)].append(job)
    for jobs in units.values():
        outcomes = {(job["outcome"], job["round"]) for job in jobs}
        if len(jobs) != (size // 2 if half else size) and run.selection["name"] != "partition":
            yield f"{len(jobs)} jobs of a unit: {jobs}"
        if any(outcome == "aggregated" for outcome, _ in outcomes) and len(outcomes) > 1:
            yield f"a unit is broken up: {jobs}"
        if sum(job["outcome"] in ("failed", "late") for job in jobs) > 1 and not run.drawn and not run.phased:
            yield f"a unit with two culprits: {jobs}"


def _jobs_are_who_they_are(run: _Run) -> Iterator[str]:
    numbers = [job["job"] for job in run.jobs]
    if len(set(numbers)) != len(numbers):
        yield "a job ends twice"
    ends = [row["time_s"] for row in run.rounds]
    for job in run.jobs:
        if job["job"] & 0xFFFFFFFF != job["client"] or job["started_s"] > job["ended_s"]:
            yield f"{job}"
        if job["outcome"] == "aggregated" and job["ended_s"] > ends[job["round"]]:
            yield f"counts before it arrives: {job}"


ASYNCHRONOUS = (
    _rows_are_the_aggregated_jobs, _staleness_is_round_minus_version, _failed_is_what_the_jobs_say, _units_are_whole,
    _jobs_are_who_they_are,
)  # fmt: skip


class _Flight:
    """The records of one job, which stand together."""

    def __init__(self, model: dict[str, Any], t: int) -> None:
        self.model, self.round = model, t
        self.compute: dict[str, Any] | None = None
        self.answer: dict[str, Any] | None = None


def _flights(run: _Run) -> list[_Flight]:
    """All jobs that left the server, by the records they left; ``round``: which round was going on when they ended."""
    found: list[_Flight] = []
    t = 0
    for event in run.events:
        match event["event"], event.get("kind"):
            case "round_start", _:
                t = event["round"]
            case "message", "model":
                found.append(_Flight(event, t))
            case "compute", _:
                found[-1].compute = event
            case "message", ("update" | "failure"):
                found[-1].answer = event
    return found


def _events_tell_the_jobs(run: _Run) -> Iterator[str]:
    jobs = {job["job"]: job for job in run.jobs}
    deadline_s = run.training["deadline_s"]
    for flight in _flights(run):
        client, compute, answer = flight.model["to"], flight.compute, flight.answer
        if compute is None:
            if answer is not None:
                yield f"an answer without work: {answer}"
            continue
        if compute["client"] != client or answer and answer["from"] != client:
            yield f"records of two clients in one job: {flight.model}, {compute}, {answer}"
        job = jobs.get(compute["job"])
        if job is None:
            yield f"no row of jobs.csv for {compute}"
            continue
        if job["started_s"] != flight.model["sent_s"]:
            yield f"{job}: its model leaves at {flight.model['sent_s']} s"
        delivered = answer is not None and answer["kind"] == "update"
        if job["outcome"] in ("aggregated", "stale", "unrecovered"):
            if not delivered or answer["arrives_s"] != job["ended_s"]:
                yield f"{job}: {answer}"
        if job["outcome"] == "failed" and (delivered or compute["completed"]):
            yield f"{job}: {answer}"
        if job["outcome"] == "late" and not isclose(job["ended_s"], job["started_s"] + deadline_s, rel_tol=1e-15):
            yield f"late at another time: {job}"
        if deadline_s is not None and job["ended_s"] > job["started_s"] + deadline_s:
            yield f"works longer than {deadline_s} s: {job}"
        if job["outcome"] == "aggregated" and flight.round > job["round"]:
            yield f"{job}: its update stands in round {flight.round}"


def _a_model_exists_when_it_is_sent(run: _Run) -> Iterator[str]:
    ends = [row["time_s"] for row in run.rounds]
    for job in run.jobs:
        version = job["version"]
        made = ends[version - 1] if version else 0.0
        if not made <= job["started_s"] <= ends[min(version, len(ends) - 1)]:
            yield f"{job}: its model is made at {made} s"


def _a_client_has_one_job_at_a_time(run: _Run) -> Iterator[str]:
    ends = [row["time_s"] for row in run.rounds]
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for job in sorted(run.jobs, key=lambda job: job["job"]):
        busy = ends[job["round"]] if job["outcome"] == "aggregated" else job["ended_s"]
        spans[job["client"]].append((job["started_s"], busy))
    for client, found in spans.items():
        for (_, ended), (started, _) in pairwise(found):
            if started < ended:
                yield f"client {client} starts at {started} s and is busy until {ended} s"


def _slots_suffice(run: _Run) -> Iterator[str]:
    changes: Counter[float] = Counter()
    for job in run.jobs:
        changes[job["started_s"]] += 1
        changes[job["ended_s"]] -= 1
    at_work = 0
    for time_s in sorted(changes):
        at_work += changes[time_s]
        if at_work > run.training["concurrency"]:
            yield f"{at_work} at work from {time_s} s on"


def _bytes_are_those_of_the_jobs(run: _Run) -> Iterator[str]:
    """A model counts in the round whose model it is; an update in the round in which it arrives."""
    versions = {job["job"]: job["version"] for job in run.jobs}
    sizes = {flight.model["bytes"] for flight in _flights(run)}
    (size,) = sizes or {0}
    down, up = Counter(), Counter()
    departed = [job for job in run.jobs if not (run.phased and job["outcome"] in ("failed", "open"))]
    down.update(job["version"] for job in departed)
    for flight in _flights(run):
        if flight.answer is not None and flight.answer["kind"] == "update" and flight.answer["bytes"]:
            if versions and flight.answer["arrives_s"] <= run.rounds[-1]["time_s"]:
                up[flight.round] += flight.answer["bytes"] * _heard(run, flight)
    if run.phased:
        return
    for t, row in enumerate(run.rounds):
        if row["bytes_down"] != down[t] * size or row["bytes_up"] != up[t]:
            yield f"round {t}: {row['bytes_down']} down, {row['bytes_up']} up; messages say {down[t] * size}, {up[t]}"


def _heard(run: _Run, flight: _Flight) -> int:
    """Whether the server heard it before it stopped listening: its job is neither cancelled nor open.

    An answer that arrives in the very instant in which its unit is given up counts only if it came first.
    """
    job = next(job for job in run.jobs if job["job"] == flight.compute["job"])
    if job["job"] in run.cancelled:
        return 0
    in_time = job["ended_s"] == flight.answer["arrives_s"] and job["outcome"] != "late"
    return int(in_time and (job["outcome"] != "open" or _in_time(run, job)))


def _in_time(run: _Run, job: dict[str, Any]) -> bool:
    """An update of an open job that has arrived: its job ended before the run did, in the order of the events."""
    ended = next(i for i, e in enumerate(run.events) if e["event"] == "compute" and e["job"] == job["job"])
    last = max(i for i, e in enumerate(run.events) if e["event"] == "round_end")
    return ended < last


BUFFERED = (
    _events_tell_the_jobs, _a_model_exists_when_it_is_sent, _a_client_has_one_job_at_a_time, _slots_suffice,
    _bytes_are_those_of_the_jobs,
)  # fmt: skip


# -- drawn staleness -------------------------------------------------------------------------------


def _staleness_is_within_its_window(run: _Run) -> Iterator[str]:
    for job in run.jobs:
        t = job["round"]
        if t is not None and job["staleness"] > min(t, run.training["arrivals"]["max"]):
            yield f"{job}"


def _bytes_are_those_of_the_drawn_messages(run: _Run) -> Iterator[str]:
    down, up, t = Counter(), Counter(), 0
    sent: dict[int, int] = {}  # what each client's latest answer holds, as long as nobody has given it up
    for event in run.events:
        match event["event"]:
            case "round_start":
                t = event["round"]
            case "message" if event["from"] == SERVER:
                down[t] += event["bytes"]
                sent[event["to"]] = 0
            case "message":
                up[t] += event["bytes"]
                sent[event["from"]] = event["bytes"]
            case "cancel":
                up[t] -= sent.get(event["client"], 0)
    for t, row in enumerate(run.rounds):
        if (row["bytes_down"], row["bytes_up"]) != (down[t], up[t]):
            yield f"round {t}: {row['bytes_down']} down, {row['bytes_up']} up; messages say {down[t]}, {up[t]}"


DRAWN = (_staleness_is_within_its_window, _bytes_are_those_of_the_drawn_messages)
