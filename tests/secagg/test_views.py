"""What the server and any coalition can compute of what they received, by linear algebra over all masks: no session,
whoever fails in it, tolerates fewer colluders than it says.
"""

import csv
import itertools
import json

import networkx
import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.secagg.neighbours import circle
from simfl.secagg.sessions import SessionFailure
from simfl.secagg.transcript import Transcript
from tests.secagg.test_sums import NEVER, made, play
from tests.support.sizes import repeats

P = 10007


def eliminated(rows, columns):
    """Row echelon form modulo P with pivots in the first columns, and how many there are."""
    rows, rank = np.array(rows, dtype=np.int64) % P, 0
    for column in range(columns):
        pivots = np.flatnonzero(rows[rank:, column])
        if not pivots.size:
            continue
        rows[[rank, rank + pivots[0]]] = rows[[rank + pivots[0], rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, P) % P
        others = np.arange(len(rows)) != rank
        rows[others] = (rows[others] - np.outer(rows[others, column], rows[rank])) % P
        rank += 1
        if rank == len(rows):
            break
    return rows, rank


def seen(updates, masks):
    """What remains of the updates in combinations of messages without any unknown mask."""
    together = np.concatenate([masks, updates], axis=1)
    if not len(together):
        return np.zeros((0, updates.shape[1]), dtype=np.int64)
    rows, rank = eliminated(together, masks.shape[1])
    left = rows[rank:, masks.shape[1] :]
    return left[left.any(axis=1)]


def within(rows, allowed):
    """Whether all rows are combinations of the allowed ones."""
    if not len(rows):
        return True
    both = np.concatenate([allowed, rows])
    return eliminated(both, both.shape[1])[1] == eliminated(allowed, allowed.shape[1])[1]


def pairwise_view(plan, masked, uploaded, answered, summed, coalition):
    """What the server and a coalition see of SecAgg's updates; ``answered`` None: nobody was asked."""
    n = len(masked)
    near = [set(plan.circle.of(u).tolist()) for u in range(n)]
    helps = set(coalition)  # whoever has sent keys is sealed shares to, also if it then sends none
    answers = set() if answered is None else set(np.flatnonzero(answered).tolist())

    def opened(u, asked):
        return u in helps or len(near[u] & (helps | (answers if asked else set()))) >= plan.threshold

    seeds = {u for u in range(n) if opened(u, summed[u])}
    keys = {u for u in range(n) if opened(u, masked[u] and not summed[u])}
    edges = [(u, v) for u in range(n) for v in near[u] if u < v and masked[u] and masked[v]]
    hidden = [edge for edge in edges if not keys & set(edge)]
    senders = np.flatnonzero(uploaded).tolist()
    masks, updates = np.zeros((len(senders), n + len(hidden)), dtype=np.int64), np.zeros((len(senders), n), dtype=int)
    for row, u in enumerate(senders):
        masks[row, u] = u not in seeds
        updates[row, u] = u not in coalition
        for place, (a, b) in enumerate(hidden):
            masks[row, n + place] = (a == u) - (b == u)
    return seen(updates, masks)


def fates_of(rng, n):
    kinds = ["advertise", "share", "upload", "unmask", NEVER]
    return [kinds[i] for i in rng.choice(5, n, p=[0.03, 0.03, 0.2, 0.14, 0.6])]


@pytest.mark.parametrize("part", range(4))
def test_no_coalition_learns_more_than_secagg_says(part):
    rng, ends = np.random.default_rng(part), set()
    for trial in range(repeats(60, 600)):
        n, size = int(rng.integers(4, 10)), int(rng.integers(1, 3))
        n -= n % size
        degree = 2 * int(rng.integers(1, max(2, n // 2)))
        if degree < n - 1 and rng.random() < 0.8:
            threshold = int(rng.integers(1, degree + 1))
            protocol = made("secagg_plus", neighbours=degree, threshold=threshold)
        else:
            protocol = made("secagg", threshold=float(rng.choice([0.0, 0.3, 0.6])))
        units, fates = np.arange(n).reshape(-1, size), fates_of(rng, n)
        end, asks, uploaded = play(protocol, units, fates, seed=trial)
        if uploaded is None:
            continue
        arrived = uploaded.ravel()
        summed = np.repeat(uploaded.all(axis=1), size)
        masked = np.array([fate not in ("advertise", "share") for fate in fates]).reshape(-1, size).all(axis=1)
        masked = np.repeat(masked, size)
        asked = next((ask.to for ask in asks if ask.kind == "unmask"), None)
        answered = None if asked is None else np.isin(np.arange(n), [u for u in asked if fates[u] != "unmask"])
        around = circle(n, protocol.sizes(n)[0], Streams(trial)("secagg/circle", 3))
        plan = type("Plan", (), {"circle": around, "threshold": protocol.sizes(n)[1]})
        failed = isinstance(end, SessionFailure)
        ends.add((failed, answered is not None))
        for colluders in range(n - 1):
            leaks = False
            for coalition in itertools.combinations(range(n), colluders):
                rows = pairwise_view(plan, masked, arrived, answered, summed, coalition)
                alone = np.where(np.isin(np.arange(n), coalition), 0, summed.astype(int))[None]
                leaks |= not within(rows, np.zeros_like(alone) if failed else alone)
                if colluders <= end.tolerated:
                    assert not leaks, (protocol, fates, coalition, end)
            if not failed and colluders == end.tolerated + 1 <= summed.sum() - 2:
                assert leaks, (protocol, fates, end)  # no more than that would have been true
    assert ends == {(True, True), (True, False), (False, True)}


def coded_view(code, n, uploaded, answered, summed, coalition):
    """What the server and a coalition see of LightSecAgg's updates, block by block."""
    blocks, rows = code.survivors - code.private, code.survivors
    powers = np.array([[pow(j + 1, k, P) for k in range(rows)] for j in range(n)])
    masks, updates = [], []

    def add(update, mask):
        updates.append(update.ravel())
        masks.append(mask.ravel())

    for u in np.flatnonzero(uploaded):
        for k in range(blocks):
            update, mask = np.zeros((n, blocks), dtype=np.int64), np.zeros((n, rows), dtype=np.int64)
            update[u, k], mask[u, k] = u not in coalition, u not in coalition
            add(update, mask)
    honest = np.array([u not in coalition for u in range(n)])
    for j in range(n):
        if answered is not None and answered[j]:
            add(np.zeros((n, blocks), dtype=np.int64), np.outer(summed & honest, powers[j]))
        for u in np.flatnonzero(honest) if j in coalition else ():
            mask = np.zeros((n, rows), dtype=np.int64)
            mask[u] = powers[j]
            add(np.zeros((n, blocks), dtype=np.int64), mask)
    return seen(np.array(updates).reshape(-1, n * blocks), np.array(masks).reshape(-1, n * rows))


@pytest.mark.parametrize("part", range(3))
def test_no_coalition_learns_more_than_lightsecagg_says(part):
    rng, ends = np.random.default_rng(part), set()
    for trial in range(repeats(40, 300)):
        n, size = int(rng.choice([4, 5, 6])), 1
        private = float(rng.choice([0.0, 0.2, 0.4]))
        protocol = made("lightsecagg", private=private, survivors=float(rng.choice([0.5, 0.7, 1.0])))
        kinds = ["share", "upload", "unmask", NEVER]
        fates = [kinds[i] for i in rng.choice(4, n, p=[0.05, 0.15, 0.3, 0.5])]
        code = protocol.code(n, 5)
        if code is None:
            continue
        end, asks, uploaded = play(protocol, np.arange(n).reshape(-1, size), fates, seed=trial)
        if uploaded is None:
            continue
        arrived = summed = uploaded.ravel()
        asked = next((ask.to for ask in asks if ask.kind == "unmask"), None)
        answered = None if asked is None else np.isin(np.arange(n), [u for u in asked if fates[u] != "unmask"])
        failed, blocks = isinstance(end, SessionFailure), code.survivors - code.private
        most = code.private if not failed else end.tolerated
        ends.add((failed, answered is not None, most < 0))
        for colluders in range(n - 1):
            leaks = False
            for coalition in itertools.combinations(range(n), colluders):
                rows = coded_view(code, n, arrived, answered, summed, coalition)
                honest = summed & ~np.isin(np.arange(n), coalition)
                sums = np.zeros((blocks, n, blocks), dtype=np.int64)
                for k in range(blocks):
                    sums[k, honest, k] = 1
                leaks |= not within(rows, (0 if failed else 1) * sums.reshape(blocks, -1))
                assert not (leaks and colluders <= most), (protocol, fates, coalition, end)
            if most < 0 and not colluders:
                assert leaks  # the server alone
    assert {(True, True, False), (True, True, True), (True, False, False), (False, True, False)} <= ends


def test_the_cut_of_a_circle_is_that_of_its_graph():
    rng = np.random.default_rng(0)
    for _ in range(repeats(200, 2000)):
        n = int(rng.integers(2, 11))
        around = circle(n, 2 * int(rng.integers(1, 5)), rng)
        members = rng.random(n) < 0.7
        graph = networkx.Graph()
        graph.add_nodes_from(range(n))
        graph.add_edges_from((u, v) for u in range(n) for v in around.of(u).tolist())
        there = np.flatnonzero(members).tolist()
        cuts = (
            size for size in range(len(there) - 1) for gone in itertools.combinations(there, size)
            if not networkx.is_connected(graph.subgraph(set(there) - set(gone)))
        )  # fmt: skip
        assert min(around.cut(members), n) == next(cuts, n)


def test_a_colluder_that_sends_keys_and_then_no_shares_opens_what_was_sealed_to_it():
    """The server has the shares that others left for it, and it has the key to them."""
    shared = np.array([False, True, True, True])
    heard = Transcript(0, np.arange(4, dtype=np.int32), shared, shared, shared, shared, True, 3, 4)
    rows = made("secagg", threshold=0.0).view(heard, np.array([0], dtype=np.int32), Streams(0))
    assert rows.toarray().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def spans_the_same(rows, others):
    return within(rows, others) and within(others, rows)


def test_views_of_pairwise_protocols_are_what_linear_algebra_finds():
    """Not only which coalitions learn more than sums: the very combinations, late uploads and failed sessions too."""
    rng, rows_seen = np.random.default_rng(8), set()
    for trial in range(repeats(250, 3000)):
        n, size = int(rng.integers(3, 9)), int(rng.integers(1, 3))
        n += n % size
        degree = 2 * int(rng.integers(1, max(2, n // 2)))
        if degree < n - 1 and rng.random() < 0.8:
            protocol = made("secagg_plus", neighbours=degree, threshold=int(rng.integers(1, degree + 1)))
        else:
            protocol = made("secagg", threshold=float(rng.choice([0.0, 0.3, 0.6])))
        shared = np.repeat(rng.random(n // size) < 0.9, size)
        sent = shared & (rng.random(n) < 0.85)
        arrived = sent & (rng.random(n) < 0.9)
        summed = np.repeat(arrived.reshape(-1, size).all(axis=1), size)
        asked = rng.random() < 0.8
        answered = arrived & (rng.random(n) < rng.choice([0.3, 0.8, 1.0])) & asked
        streams, clients = Streams(trial), rng.permutation(50)[:n].astype(np.int32)
        around = circle(n, protocol.sizes(n)[0], streams("secagg/circle", 3))
        plan = type("Plan", (), {"circle": around, "threshold": protocol.sizes(n)[1]})
        heard = Transcript(3, clients, shared, sent, summed, answered, False, int(answered.sum()), 50)
        for colluders in range(n + 1):
            for coalition in itertools.combinations(range(n), colluders):
                right = pairwise_view(plan, shared, sent, answered, summed, coalition)
                rows = protocol.view(heard, clients[list(coalition)], streams).toarray().astype(np.int64)
                assert spans_the_same(rows, right), (protocol, heard, coalition)
                rows_seen.add(len(rows))
    assert rows_seen >= {0, 1, 2, 3}


def test_views_of_coded_protocols_hold_all_that_linear_algebra_finds():
    """The sum and single updates are either known wholly or not at all; where a part is, all of it counts as known."""
    rng, kinds = np.random.default_rng(9), set()
    for trial in range(repeats(120, 1000)):
        n = int(rng.choice([4, 5, 6]))
        protocol = made("lightsecagg", private=float(rng.choice([0.0, 0.2, 0.4])),
                        survivors=float(rng.choice([0.5, 0.7, 1.0])))  # fmt: skip
        if (code := protocol.code(n, 5)) is None:
            continue
        sent = rng.random(n) < 0.85
        summed = sent & (rng.random(n) < 0.9)
        answered = summed & (rng.random(n) < rng.choice([0.2, 0.8]))
        clients, blocks = rng.permutation(50)[:n].astype(np.int32), code.survivors - code.private
        heard = Transcript(3, clients, np.ones(n, dtype=bool), sent, summed, answered, False, int(answered.sum()), 50)
        for colluders in range(n):
            for coalition in itertools.combinations(range(n), colluders):
                right = coded_view(code, n, sent, answered, summed, coalition)
                rows = protocol.view(heard, clients[list(coalition)], Streams(trial)).toarray().astype(np.int64)
                assert within(right, np.kron(rows, np.eye(blocks, dtype=np.int64))), (protocol, heard, coalition)
                assert not len(rows) or len(right) or not rows.any(), (protocol, heard, coalition)
                kinds.add((len(rows) > 1, len(right) > 0))
    assert {(False, False), (False, True), (True, True)} <= kinds


@pytest.mark.parametrize("protocol", ["pairwise_ratchet", "oblivious"])
def test_views_where_masks_go_away_by_themselves(protocol):
    """Masks between all pairs and no others: by linear algebra over them."""
    made_one = made(protocol, **({"epsilon": 1.0, "samples": 5} if protocol == "oblivious" else {}))
    for n in (2, 3, 4):
        for fates in itertools.product([False, True], repeat=n):
            sent, everybody = np.array(fates), np.ones(n, dtype=bool)
            heard = Transcript(0, np.arange(n, dtype=np.int32), everybody, sent, sent, sent, False, 0, n)
            for colluders in range(n + 1):
                for coalition in itertools.combinations(range(n), colluders):
                    pairs = [pair for pair in itertools.combinations(range(n), 2) if not set(pair) & set(coalition)]
                    masks, updates = np.zeros((n, len(pairs)), dtype=int), np.eye(n, dtype=int)
                    for place, (a, b) in enumerate(pairs):
                        masks[a, place], masks[b, place] = 1, -1
                    updates[list(coalition)] = 0
                    rows = made_one.view(heard, np.array(coalition, dtype=np.int32), Streams(0)).toarray()
                    assert spans_the_same(rows.astype(np.int64), seen(updates[sent], masks[sent])), (sent, coalition)


def test_a_protocol_that_says_nothing_shows_each_update_and_ideal_and_plain_are_as_said():
    flags = [np.array(each, dtype=bool) for each in ([1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0])]
    heard = Transcript(0, np.array([7, 3, 9, 1], dtype=np.int32), *flags, True, 0, 10)
    someone, streams = np.array([3], dtype=np.int32), Streams(0)
    plain, ideal = (PROTOCOLS.of({"name": name}) for name in ("plain", "ideal"))
    assert plain.view(heard, someone, streams).toarray().tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert ideal.view(heard, someone, streams).toarray().tolist() == [[1, 0, 0, 0]]
    assert not ideal.view(heard._replace(ended=False), someone, streams).shape[0]
    for name, cls in PROTOCOLS.items():
        assert not cls.__module__.startswith("simfl.") or (cls.view is Protocol.view) == (name == "plain"), name
    assert Protocol.view(made("secagg"), heard, someone, streams).toarray().tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]


ARCS = """
clients: 20
seed: 18
selection: {name: all}
training: {name: fedavg, rounds: 1, weighting: equal, on_failure: partial}
learning: {name: none, parameters: 10}
devices: {computation: {name: constant, seconds: 30}, failure: {name: bernoulli, probability: 0.15}}
secagg: {name: secagg_plus, neighbours: 6, threshold: 4}
privacy: {colluders: 3}
"""
FAILED = """
clients: 10
seed: 2
selection: {name: all}
training: {name: fedavg, rounds: 6, weighting: equal, on_failure: partial}
learning: {name: none, parameters: 10}
devices: {failure: {name: bernoulli, probability: 0.08, phases: {unmask: 0.4}}}
secagg: secagg
privacy: {colluders: 1}
"""


def table(done, name):
    with open(done.path / name, newline="") as file:
        return list(csv.DictReader(file))


def test_arcs_of_a_circle_are_not_hidden_from_those_who_cut_it(tmp_path):
    """13 of 16 were said to hide each other; the server and clients 1, 2 and 13 see the sum of 9 and 12."""
    summary = run(Scenario.parse(ARCS), tmp_path).summary
    assert summary["privacy_strong"] == 16 and summary["privacy_strong_colluders"] == 1
    assert summary["tolerated_colluders"] == 2
    two = run(Scenario.parse(ARCS.replace("colluders: 3", "colluders: 2")), tmp_path).summary
    assert two["privacy_weak_lower_colluders"] == 14


def test_a_round_that_failed_at_unmasking_is_open_to_a_colluder(tmp_path):
    done = run(Scenario.parse(FAILED), tmp_path)
    open_ = {int(row["round"]) for row in table(done, "phases.csv") if "unmask" in row["failure"]}
    rounds = table(done, "rounds.csv")
    assert open_ and not any(row["cardinality"] != "0" for row in rounds if int(row["round"]) in open_)
    for row in rounds:
        later = int(row["round"]) >= min(open_)
        assert (row["privacy_strong_colluders"] == "1") == later
        assert not later or row["privacy_weak_upper_colluders"] == "1"
        assert row["privacy_strong"] in ("", "10", "9", "8", "7")
    assert done.summary["tolerated_colluders"] == 0


def test_an_upload_that_nobody_was_asked_to_open_is_closed(tmp_path):
    """Too few arrive, so that nobody is asked: as many colluders as ever learn nothing."""
    few = FAILED.replace("unmask: 0.4", "unmask: 0").replace("0.08", "[0,0,0,1,1,1,1,1,1,1]")
    done = run(Scenario.parse(few, "few", ("secagg={name: secagg, min_sum: 4}", "training.rounds=2")), tmp_path)
    assert all(row["failure"] for row in table(done, "phases.csv") if row["tolerated"])
    assert done.summary["tolerated_colluders"] == 4


def test_shares_of_noise_are_open_with_the_sum(tmp_path):
    """Epsilon with a colluder was finite though a failed sum was open to the server and that colluder."""
    noise = "privacy={stages: [{name: skellam, colluders: 1, clip_norm: 1, noise_multiplier: 4}]}"
    learned = "learning={data: digits, model: logistic}"
    done = run(Scenario.parse(FAILED, "noise", (noise, learned)), tmp_path)
    first = min(int(row["round"]) for row in table(done, "phases.csv") if "unmask" in row["failure"])
    epsilons = [row["epsilon_max"] for row in table(done, "rounds.csv")]
    assert all(epsilons[:first]) and not any(epsilons[first:])
    assert {row["epsilon"] for row in table(done, "privacy.csv")} == {"inf"}
    alone = run(Scenario.parse(FAILED, "noise", (noise.replace("colluders: 1", "colluders: 0"), learned)), tmp_path)
    assert alone.summary["epsilon_max"] is not None


@pytest.mark.parametrize("protocol", ["secagg", "secagg_plus", "lightsecagg", "pairwise_ratchet", "flamingo", "opa"])
def test_before_the_run_nobody_is_tolerated_where_clients_can_be_lost(protocol, tmp_path):
    from click.testing import CliRunner

    from simfl.cli import simfl

    (tmp_path / "few.yaml").write_text("""
clients: 40
selection: {name: batch_partition, k: 20, T: 4}
training: {name: fedavg, rounds: 2, weighting: equal}
learning: {name: none, parameters: 10}
""")
    name = {"name": protocol} | ({"neighbours": 8, "threshold": 5} if protocol == "secagg_plus" else {})

    def said(*more):
        command = ["theory", str(tmp_path / "few.yaml"), f"secagg={json.dumps(name)}", *more, "--colluders", "2"]
        result = CliRunner().invoke(simfl, [*command, "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert said()["guarantee_colluders"] == {"strong": 2, "semi_strong": 2, "weak": 2}
    for lost in ("devices.failure=0.1", "training.deadline_s=5", "training.quorum=0.5"):
        theory = said(lost)
        assert set(theory["guarantee_colluders"].values()) == {1} or not theory["guarantee"], lost
        assert theory["secagg"]["known"]["colluding"] == 0


@pytest.mark.parametrize("protocol", ["pairwise_ratchet", "secagg"])
def test_a_round_that_is_given_up_is_open_where_masks_go_away_by_themselves(protocol, tmp_path):
    """``abort``: the one who is missing may be a colluder, whose silence keeps nothing from the server."""
    text = FAILED.replace("partial", "abort").replace(", phases: {unmask: 0.4}", "").replace("secagg: secagg", "")
    summary = run(Scenario.parse(text + f"secagg: {protocol}"), tmp_path).summary
    assert summary["skipped"] and summary["tolerated_colluders"] == (-1 if protocol == "pairwise_ratchet" else 4)


def test_failed_recoveries_of_a_buffer_count(tmp_path):
    """Of 9 answers needed at most 8 came, of which 5 say nothing: the server alone may know a part of the sum."""
    text = """
clients: 12
seed: 1
selection: {name: batch_partition, k: 6, T: 2}
training: {name: fedbuff, rounds: 4, concurrency: 6, buffer: 4, weighting: equal}
learning: {name: none, parameters: 10}
devices: {computation: 1, failure: {name: bernoulli, probability: 0.0, phases: {unmask: 0.35}}}
secagg: {name: basecagg, private: 0.5, survivors: 0.7}
privacy: {colluders: 1}
"""
    done = run(Scenario.parse(text), tmp_path)
    failed = [row for row in table(done, "phases.csv") if "unmask" in row["failure"]]
    assert failed
    for row in failed:
        assert int(row["tolerated"]) == max(-1, 6 - int(row["answered"]))
    for row in table(done, "rounds.csv"):
        known = [int(each["tolerated"]) for each in failed if int(each["round"]) <= int(row["round"])]
        if min(known, default=6) < 1:
            assert row["privacy_weak_upper_colluders"] == "1"
        if min(known, default=6) < 0:
            assert row["privacy_strong"] == row["privacy_weak_lower"] == "1"
            assert done.summary["guarantee_weak"] == 1 and done.summary["beside_sums"]


GUARDED = {"name": "guarded", "T": 2, "tries": 1, "inner": {"name": "random", "k": 4}}


@pytest.mark.parametrize("selection, on_failure", [({"name": "random", "k": 3}, "abort"), (GUARDED, "partial")])
def test_a_trusted_party_opens_no_round_that_is_given_up(selection, on_failure, tmp_path):
    """It has no phases, and the columns stay those of the sums that there are."""
    scenario = {"name": "given_up", "clients": 12, "selection": selection, "secagg": "ideal", "learning": "none"}
    training = {"name": "fedavg", "rounds": 30, "on_failure": on_failure}
    failing = {"failure": {"name": "bernoulli", "probability": 0.4}}
    done = run(Scenario.parse(json.dumps(scenario | {"training": training, "devices": failing})), tmp_path)
    rounds = table(done, "rounds.csv")
    assert any(row["cardinality"] == "0" for row in rounds) and rounds[-1]["privacy_semi_strong"] != "1"
    assert not (done.path / "phases.csv").exists()
