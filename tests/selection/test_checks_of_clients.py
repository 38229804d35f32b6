"""What clients object to, beside the text of docs/explanation/proofs/verifiable.md; what they do on the clock."""

import json
import subprocess
import sys
from itertools import combinations, islice, product
from math import comb
from pathlib import Path

import numpy as np
import pytest

import simfl
from simfl.core.columns import GUARANTEE_MALICIOUS
from simfl.core.errors import ScenarioError, SimflError
from simfl.core.rng import Streams
from simfl.core.types import View
from simfl.deployment.flower.node_selection import NodeSelection
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.crypto.keys import sum_masked
from simfl.secagg.neighbours import circle
from simfl.secagg.pairwise import SecAgg
from simfl.secagg.pairwise_session import PairwiseClient, PairwisePlan, PairwiseServer, Secrets, seed_between
from simfl.selection.base import POLICIES
from simfl.selection.verifiable import Claim, Receipt, Verifier

ROOT = Path(__file__).parents[2]
STREAMS = Streams(7)
N, ROUND = 6, 3


def policy(inner, k=4):
    return POLICIES.of({"name": "verifiable", "inner": {"name": inner, "k": k, "T": 2, "mode": "uniform"}})


def drawn(inner, available, t=ROUND):
    """What the policy of units selects by the public seed; nothing of the checks is asked."""
    view = View(t, available, np.zeros(len(available), dtype=np.int64))
    return policy(inner).inner.select(view, 4, STREAMS("selection", t))


def subsets(clients):
    return [frozenset(some) for m in range(len(clients) + 1) for some in combinations(sorted(clients), m)]


def by_the_text(me, last, inner, claim, signed):
    """The checks that a claim fails, of a client that has ``signed`` its receipt, as the page says them."""
    row = [frozenset(unit) for unit in claim.units.tolist()]
    everybody = frozenset().union(*row)
    failed = set()
    if (
        len(claim.available) != N
        or me not in everybody
        or drawn(inner, claim.available, claim.round).tolist() != claim.units.tolist()
    ):
        failed.add("row")
    unit = next((unit for unit in row if me in unit), frozenset())
    if not (unit <= claim.masked and me in claim.masked and claim.masked <= claim.holders <= everybody):
        failed.add("masks")
    others = {each.client for each in claim.receipts if each[1:] == signed[1:]}
    if not unit - {me} <= others or claim.sent != signed.model:
        failed.add("unit")
    failed |= {name for name, late in (("once", claim.round <= last), ("one", claim.round < last)) if late}
    if not claim.summed <= everybody or any(0 < len(each & claim.summed) < len(each) for each in row):
        failed.add("whole")
    if any(claim.agreed.get(i) != claim.summed for i in claim.summed):
        failed.add("agree")
    if claim.round < last:  # nor does it sign or open a sum of an earlier round
        failed.add("one")
    return failed


def claims(inner):
    """A true claim of client 0's, and all that differ from it in one or two of these ways."""
    there = np.ones(N, dtype=bool)
    while 0 not in (units := drawn(inner, there)):
        there[units.max()] = False
    row = frozenset(units.ravel().tolist())
    true = Claim(ROUND, there, units, b"A", b"A", row, row, (), row, dict.fromkeys(row, row))
    receipts = tuple(Receipt(i, ROUND, units.tobytes(), b"A") for i in row)
    true, outside = true._replace(receipts=receipts), frozenset(range(N)) - row
    other = receipts[1:] if receipts[0].client != 0 else receipts[:1]
    rows = [drawn(inner, np.array(some)) for some in product([False, True], repeat=N)]
    ways = [
        *({"available": np.ones(n, dtype=bool)} for n in (N - 1, N + 1)),
        *({"units": other} for other in (units[::-1].copy(), units[:1], units[:, ::-1].copy(), units[:, :1])),
        *({"units": other} for other in {each.tobytes(): each for each in rows if each.size}.values()),
        *({"round": t} for t in (ROUND - 1, ROUND - 2)), {"sent": b"Z"}, {"model": b"Z"},
        *({"masked": some} for some in subsets(row)), *({"holders": some} for some in subsets(row)),
        {"holders": row | outside}, {"masked": row | outside, "holders": row | outside},
        *({"summed": some} for some in subsets(range(N))),
        *({"summed": some, "agreed": dict.fromkeys(some, some)} for some in subsets(range(N))),
        *({"receipts": tuple(each._replace(**change) for each in receipts)} for change in (
            {"round": ROUND + 1}, {"row": units[:1].tobytes()}, {"model": b"Z"}, {"client": 5},
        )),
        {"receipts": other}, {"receipts": ()},
    ]  # fmt: skip
    yield true
    for one in ways:
        yield true._replace(**one)
    for one, two in islice(combinations(ways, 2), 0, None, 4):
        if not one.keys() & two.keys():
            yield true._replace(**one, **two)


@pytest.mark.parametrize("inner", ["batch_partition", "half_partition"])
def test_clients_object_to_what_the_text_says_and_to_nothing_else(inner):
    verifier, seen = Verifier(0, policy(inner), STREAMS, N, ROUND - 1), set()
    for claim in claims(inner):
        signed = Receipt(0, claim.round, claim.units.tobytes(), claim.model)
        expected = by_the_text(0, ROUND - 1, inner, claim, signed)
        assert set(verifier.objections(claim)) == expected, claim
        seen.add(frozenset(expected))
    assert len(seen) > 20 and frozenset() in seen


def test_a_client_that_keeps_what_it_has_answered_and_taken_does_not_object_to_an_honest_server():
    chosen, there, last, taken, rounds = policy("batch_partition"), np.ones(8, dtype=bool), -1, None, 0
    for t in range(20):
        row = chosen.select(View(t, there, np.zeros(8, dtype=np.int64)), 4, STREAMS("selection", t))
        if 0 in row:
            members = frozenset(row.ravel().tolist())
            receipts = tuple(Receipt(i, t, row.tobytes(), b"A") for i in members)
            claim = Claim(
                t, there, row, b"A", b"A", members, members, receipts, members, dict.fromkeys(members, members)
            )
            assert Verifier(0, chosen, STREAMS, 8, last, taken).objections(claim) == []
            last, taken, rounds = t, members, rounds + 1
    assert rounds > 5


def test_the_servers_own_clients_of_secagg_are_cut_apart_only_where_they_do_not_check_their_masks():
    """The server keeps the shares of 0 and 1 from one another, and says that all other units have failed."""
    n, there = 8, np.ones(8, dtype=bool)
    chosen = policy("batch_partition", n)
    row = chosen.select(View(ROUND, there, np.zeros(n, dtype=np.int64)), n, STREAMS("selection", ROUND))
    plan = PairwisePlan(ROUND, circle(n, n - 1, STREAMS("c")), SecAgg().sizes(n)[1], np.repeat(np.arange(4), 2), 2)
    clients = {u: PairwiseClient(plan, u, Secrets.of(STREAMS, ROUND, u)) for u in range(n)}
    server = PairwiseServer(plan)
    keys = server.publish({u: client.advertise() for u, client in clients.items()})
    forwarded = server.forward({u: clients[u].share(keys[u]) for u in clients})
    del forwarded[0][1], forwarded[1][0]
    for u, client in clients.items():
        client.receive(forwarded[u])
    sent = {u: clients[u].mask(np.array([1000 + u, 7 * u])) for u in (0, 1)}
    summed, everybody = frozenset({0, 1}), frozenset(range(n))
    answers = {u: clients[u].unmask(summed) for u in range(2, n)}
    for me in (0, 1):
        opened = [server._open(me, True, answers)]
        for u in answers:
            opened.append(seed_between(ROUND, server._open(u, False, answers), server.keys[me].mask, u, me))
        assert sum_masked([sent[me]], [], opened).tolist() == [1000 + me, 7 * me]
        claim = Claim(
            ROUND, there, row, b"A", b"A", everybody, everybody - {1 - me}, (), summed, {0: summed, 1: summed}
        )
        receipts = tuple(Receipt(i, ROUND, row.tobytes(), b"A") for i in range(n))
        assert Verifier(me, chosen, STREAMS, n).objections(claim._replace(receipts=receipts)) == ["masks"]


BASE = """clients: 8
selection: {name: verifiable, inner: {name: batch_partition, k: 8, T: 4, mode: uniform}}
training: {name: fedavg, rounds: 30, weighting: equal}
learning: {name: none, parameters: 10}
secagg: secagg
devices: {computation: {name: constant, seconds: 1}}
"""


def phases(*overrides):
    known = simfl.theory(Scenario.parse(BASE, "t", overrides))
    return {each["phase"]: each for each in known.sums["phases"]}


def test_keys_and_receipts_cost_what_their_signatures_take():
    believed, checked = phases("selection={name: batch_partition, k: 8, T: 4, mode: uniform}"), phases()
    for phase, up, down, seconds in (
        ("advertise", 64, 0, 0.0002), ("share", 0, 7 * 64, 7 * 0.0005), ("work", 0, 3 * 68, 3 * 0.0005),
    ):  # fmt: skip
        before, after = believed[phase], checked[phase]
        assert after["bytes_up"] - before["bytes_up"] == up and after["bytes_down"] - before["bytes_down"] == down
        assert after["seconds"] - before["seconds"] == pytest.approx(seconds)
    assert checked["show"]["bytes_down"] == 8 * 68 and checked["confirm"]["bytes_down"] == 4 + 1 + 32


def test_the_page_says_what_theory_says_of_a_thousand_clients():
    units = "{name: batch_partition, k: 100, T: 10, mode: uniform}"
    large = ["clients=1000", "learning.parameters=100000"]
    believed = phases(*large, f"selection={units}")
    checked = phases(*large, f"selection={{name: verifiable, inner: {units}}}")
    up, down, seconds = (
        round(sum(each[what] for each in checked.values()) - sum(each[what] for each in believed.values()), 3)
        for what in ("bytes_up", "bytes_down", "seconds")
    )
    alone = [comb(100, T - 1) / comb(999, T - 1) for T in (8, 4)]
    text = " ".join((ROOT / "docs/explanation/lying-servers.md").read_text().split())
    assert f"{up:.0f} bytes more up and {down:,.0f} more down" in text and f"{seconds:.3f} s of computation" in text
    assert f"probability {alone[0] * 1e8:.0f} · 10⁻⁸" in text and f"with {alone[1]:.3f}." in text
    assert f"{100 * (1 - 0.99**100):.0f} % of the rounds with 100" in text


def test_only_who_has_seen_the_signatures_opens_a_sum(tmp_path):
    failing = "{name: bernoulli, probability: [0, 0, 0, 0, 0.3, 0, 0, 0], phases: {agree: 0.02, show: 0.05}}"
    changes = ["trace=events", "training.rounds=100", f"devices.failure={failing}"]
    folder = run(Scenario.parse(BASE, "t", changes), tmp_path).path
    rounds, t = {}, -1
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        t = event["round"] if event["event"] == "round_start" else t
        if event["event"] == "message" and event["to"] == -1:
            rounds.setdefault(t, {}).setdefault(event["kind"], set()).add(event["from"])
    halves = [each for each in rounds.values() if len(each["update"]) < 8]
    unsigned = [each for each in rounds.values() if len(each["agree"]) % 4]
    unshown = [each for each in rounds.values() if each.get("show", each["update"]) < each["update"]]
    assert halves and unsigned and unshown
    for each in rounds.values():
        assert each["agree"] <= (set(range(4)) if each in halves else set(range(8))) <= each["update"] | {4}
        assert each.get("unmask", set()) == each.get("show", set()) <= each["update"]
        assert ("show" in each) != (each in unsigned)


@pytest.mark.parametrize("change", [
    "topology={name: tree, edges: 2, selects: cloud}", "training={name: gossip, rounds: 2}", "secagg=flamingo",
    "secagg={name: secagg, threshold: 0.49}", "training.on_failure=partial",
])  # fmt: skip
def test_checks_are_refused_where_nobody_would_make_them_or_gain_by_them(change):
    with pytest.raises(ScenarioError):
        Scenario.parse(BASE, "t", ["clients=16", change])


def test_servers_of_flower_refuse_checks_that_their_clients_do_not_make():
    with pytest.raises(SimflError, match="check"):
        NodeSelection("verifiable:inner={name: batch_partition, k: 4, T: 2, mode: uniform}", 8)


def test_the_number_is_said_to_be_of_coefficients_as_clipped_sums_of_a_unit_can_show_one_client():
    u, v = np.array([3.0, 0.0, 4.0]), np.array([0.0, 1.0, 0.0])
    first, second = (sum(each * min(1.0, norm / np.linalg.norm(each)) for each in (u, v)) for norm in (9.0, 2.0))
    assert np.allclose((first - second) / (1 - 2 / 5), u)
    assert "under two models is two unknowns" in GUARANTEE_MALICIOUS.assumes


def test_theory_promises_nothing_where_the_scenario_itself_names_clients_of_the_servers():
    lying = "{name: lying_server, lie: sybils, sybils: [2], victim: 3, rounds: 4, weighting: equal}"
    known = simfl.theory(Scenario.parse(BASE, "t", [f"training={lying}", "secagg=ideal"]))
    assert known.selection["guarantee_malicious"] == 1


def test_what_a_server_says_does_not_depend_on_whether_it_has_been_imported():
    """By a process that has read the scenario only."""
    program = f"""
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee
lying = "training={{name: lying_server, lie: selects, victim: 3, rounds: 4, weighting: equal}}"
print(guarantee(Scenario.parse({BASE!r}, "t", [lying, "secagg=ideal"])))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "{'strong': 1, 'semi_strong': 1, 'weak': 1}"


@pytest.mark.parametrize("protocol", ["secagg", "ideal"])
def test_where_nobody_fails_checks_cost_no_sum(protocol, tmp_path):
    changes = [f"secagg={protocol}", "clients=40", "selection.inner.k=20", "selection.inner.T=2", "training.rounds=2"]
    summary = json.loads((run(Scenario.parse(BASE, "t", changes), tmp_path).path / "summary.json").read_text())
    assert summary["mean_cardinality"] == 20 and summary["guarantee_malicious"] == 2
