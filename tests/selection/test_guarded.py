"""Guarded selection: judged by the metrics, by exhaustion, and in whole runs in which clients fail in every phase."""

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from simfl.core.errors import PluginError
from simfl.core.types import View
from simfl.privacy.multiround.matrix_metrics import multi_round
from simfl.privacy.multiround.semi_strong import Programme
from simfl.results.folder import ResultsFolder
from simfl.runs.run import run
from simfl.scenario import InvalidScenario, Scenario
from simfl.selection.asking import ask, shuffle_clients
from simfl.selection.base import POLICIES
from simfl.selection.guard import certificates
from simfl.selection.guard.certificates import Certificates
from simfl.selection.guard.span import Form, Span, keeps_weak
from simfl.selection.guarded import Guard
from simfl.selection.theory.expected_cardinality import theory
from tests.support import privacy_brute
from tests.support.kills import counted, files, killed_at
from tests.support.sizes import repeats

SIZES = [(8, 4, 2, "batch"), (16, 8, 2, "half"), (12, 6, 3, "batch"), (12, 4, 4, "batch"), (16, 8, 4, "half")]


def guarded(n, k, T, reserve, **keys):
    inner = keys.pop("inner", {"name": "random", "k": k})
    return POLICIES.of({"name": "guarded", "inner": inner, "T": T, "reserve": reserve, "mode": "fair", **keys})


def play(policy, n, rounds, seed, dropout=0.3, failing=0.1, whole_units=True, before=None):
    """The rows that a policy admits where clients are away and fail by chance, and how many rows it was refused."""
    rng, history, refused = np.random.default_rng(seed), [], 0
    participation = np.zeros(n, dtype=np.int64)
    for t in range(rounds):
        view = View(t, rng.random(n) >= dropout, participation.copy(), history=tuple(history), before=before)
        units = ask(policy, view, policy.k, rng)
        fails = rng.random(n) < failing
        left = units[~fails[units].any(axis=1)].ravel() if whole_units else units[~fails[units]]
        row = np.sort(left).astype(np.int32)
        if not policy.admits(view, row):
            refused += 1
        elif row.size:
            history.append(row)
            participation[row] += 1
    return history, refused


def matrix(rows, n):
    P = np.zeros((len(rows), n))
    for line, clients in zip(P, rows, strict=True):
        line[clients] = 1
    return P


def worst(P, notion):
    """What the metrics say of the rows, the lowest value that is possible."""
    found = multi_round(P)
    return found.semi_strong if notion == "semi_strong" else found.weak_lower


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
@given(size=st.sampled_from(SIZES), seed=st.integers(0, 2**20), whole_units=st.booleans())
@settings(max_examples=repeats(15, 40), deadline=None)
def test_the_notion_holds_of_all_rows_and_of_the_whole_reserve(notion, size, seed, whole_units):
    n, k, T, reserve = size
    policy = guarded(n, k, T, reserve, notion=notion)
    rows, _ = play(policy, n, 20, seed, whole_units=whole_units)
    if rows:
        assert worst(matrix(rows, n), notion) >= T
    assert worst(np.vstack([matrix(rows, n), matrix(policy.reserved.family(n).units(), n)]), notion) >= T


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
def test_runs_add_free_rows_and_refuse_what_failures_leave(notion):
    """The other tests say nothing of a guard that admits only reserved rows."""
    policy, batches = guarded(12, 6, 3, "batch", notion=notion), matrix(np.arange(12).reshape(4, 3), 12)
    ranks, refused = [], 0
    for seed in range(10):
        rows, again = play(policy, 12, 25, seed, failing=0.2)
        ranks.append(np.linalg.matrix_rank(np.vstack([batches, matrix(rows, 12)])))
        refused += again
    assert min(ranks) >= 5, ranks
    assert refused > 5


@pytest.mark.parametrize(("n", "k", "T", "reserve"), [(6, 2, 2, "batch"), (8, 4, 2, "half"), (8, 4, 4, "batch")])
def test_admitted_is_exactly_what_keeps_the_notion(n, k, T, reserve):
    """Every set of clients after every few rows, against the notions by exhaustion, in fractions."""
    rng = np.random.default_rng(n + T)
    for notion, exact in (("semi_strong", privacy_brute.semi_strong), ("weak", privacy_brute.weak)):
        units = guarded(n, k, T, reserve).reserved.family(n).units()
        guard, rows = Guard.of(units, n, T, notion, None), matrix(units, n).tolist()
        for _ in range(3):
            sets = [np.flatnonzero(bits) for bits in itertools.product([0, 1], repeat=n) if any(bits)]
            rng.shuffle(sets)
            admitted = None
            for clients in sets[:40]:
                wider = guard.with_row(clients)
                with_it = privacy_brute.exact([*rows, matrix([clients], n)[0]])
                assert (wider is not None) == (exact(with_it) >= T)
                assert (wider is guard) == (privacy_brute.rank(with_it) == guard.span.rank)
                if wider is not None and wider is not guard:
                    admitted = clients, wider
            if admitted is None:
                break
            rows, guard = [*rows, matrix([admitted[0]], n)[0]], admitted[1]


@pytest.mark.parametrize("one", range(16))
def test_every_client_has_a_programme_of_its_own(one):
    """Two rows add up to 2 e_0 + e_12 + e_13 and two batches: that isolates client 0 and nobody else; so with any
    client in its place.
    """
    batch, place = one // 4, one % 4
    names = np.arange(16).reshape(4, 4)[np.r_[batch, np.delete(np.arange(4), batch)]]
    names[0] = names[0][np.r_[place, np.delete(np.arange(4), place)]]
    names = names.ravel()
    units, rows = (
        np.arange(16, dtype=np.int32).reshape(4, 4),
        [names[[0, 4, 5, 8, 9, 12]], names[[0, 6, 7, 10, 11, 13]]],
    )
    P = np.vstack([matrix(units, 16), matrix(rows, 16)])
    least = [Programme(P, np.ones(16, dtype=np.int64)).solve(i)[1] for i in range(16)]
    assert [i for i in range(16) if least[i] < 4 - 1e-6] == [one]
    guard = Guard.of(units, 16, 4, "semi_strong", None).with_row(rows[0])
    assert guard is not None and guard.with_row(rows[1]) is None
    assert Guard.of(units, 16, 2, "semi_strong", None).with_row(rows[0]).with_row(rows[1]) is not None


def test_bounds_are_those_of_the_metrics():
    """After admitted rows every certificate proves T, and the metrics find no less; spoiled ones prove nothing."""
    rng = np.random.default_rng(4)
    guard = Guard.of(np.arange(24, dtype=np.int32).reshape(-1, 4), 24, 4, "semi_strong", None)
    while guard.span.rank < 11:
        guard = guard.with_row(rng.choice(24, 8, replace=False)) or guard
    proofs = guard.certificates
    assert (proofs.bounds() >= 4 - 1e-8).all()
    assert worst(proofs.rows, "semi_strong") >= 4
    y = proofs.weights - 4 * np.eye(24)
    assert np.abs(y @ proofs.rows.T).max() < 1e-6 and np.abs(proofs.weights).max() < 1 + 1e-6
    proofs.weights[3] = 0
    assert proofs.bounds()[3] < 4


def nothing_nearby(weights, *_):
    """Leaves all to the programmes."""
    return weights, np.zeros(len(weights), dtype=bool)


def test_projections_that_miss_are_not_admitted(monkeypatch):
    guard = Guard.of(np.arange(24, dtype=np.int32).reshape(-1, 4), 24, 4, "semi_strong", None)
    row, nearby, found_by = np.arange(0, 24, 3), certificates.nearby, set()

    def spoiled(*arguments):
        moved, found = nearby(*arguments)
        found_by.update(np.flatnonzero(found).tolist())
        moved[spoiled.client] *= 1 - 1e-6
        return moved, found

    monkeypatch.setattr(certificates, "nearby", spoiled)
    spoiled.client = []
    assert guard.with_row(row) is not None and len(found_by) > 15
    for spoiled.client in sorted(found_by):
        assert guard.with_row(row) is None


def test_projections_find_most_certificates_and_change_no_decision(monkeypatch):
    """The same 30 rows with them and without; with them the programmes are asked for a tenth of the clients."""
    rows = [np.random.default_rng(seed).choice(24, 8, replace=False) for seed in range(30)]
    solve, asked = certificates.CertificateProgramme.solve, []

    def counted(programme, i, T, basis):
        asked.append(i)
        return solve(programme, i, T, basis)

    monkeypatch.setattr(certificates.CertificateProgramme, "solve", counted)

    def decisions():
        guard, admitted = Guard.of(np.arange(24, dtype=np.int32).reshape(-1, 3), 24, 3, "semi_strong", None), []
        asked.clear()
        for row in rows:
            guard, before = guard.with_row(row) or guard, guard
            admitted.append(guard is not before)
        return admitted, len(asked)

    quick = decisions()
    monkeypatch.setattr(certificates, "nearby", nothing_nearby)
    slow = decisions()
    assert quick[0] == slow[0] and 5 < sum(quick[0]) < 30
    assert quick[1] < slow[1] / 2


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
@given(seed=st.integers(0, 2**20), T=st.sampled_from([2, 4]))
@settings(max_examples=repeats(12, 40), deadline=None)
def test_what_the_past_has_left_is_kept_and_no_more(notion, seed, T):
    """Of each client: what the programme of the metrics says of the past; every unit and every row that leaves it."""
    rng = np.random.default_rng(seed)
    past = rng.random((rng.integers(1, 7), 8)) < rng.uniform(0.2, 0.8)
    units = np.arange(8, dtype=np.int32).reshape(-1, T)
    guard = Guard.after(past, units, T, notion, None)
    P = past.astype(float)
    exposed = values(P, "semi_strong") < 1 + 1e-6
    kept = np.minimum(T, values(P, notion, exposed))
    assert guard.client_guarantees == pytest.approx(kept)
    for unit in units:
        with_it = np.vstack([P, matrix([unit], 8)])
        if admitted := bool((values(with_it, notion, exposed) >= kept - 1e-6).all()):
            P = with_it
        assert guard.reserved[unit].all() == guard.reserved[unit].any() == admitted
    for _ in range(8):
        row = rng.choice(8, 4, replace=False)
        with_it = np.vstack([P, matrix([row], 8)])
        assert (guard.with_row(row) is not None) == (values(with_it, notion, exposed) >= kept - 1e-6).all()


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
@pytest.mark.parametrize("shuffle", [False, True])
@given(size=st.sampled_from(SIZES[:4]), seed=st.integers(0, 2**20))
@settings(max_examples=repeats(10, 100), deadline=None)
def test_after_a_past_of_any_rows_nobody_loses_more(notion, shuffle, size, seed):
    """Any rows, then guarded rounds: what is left of T stays left, and nobody else is exposed."""
    (n, k, T, reserve), rng = size, np.random.default_rng(seed)
    past = rng.random((rng.integers(1, 2 * n), n)) < rng.uniform(0.2, 0.8)
    policy = guarded(n, k, T, reserve, notion=notion)
    policy = shuffle_clients(policy, rng.permutation(n)) if shuffle else policy
    rows, _ = play(policy, n, 10, seed, before=past)
    exposed = values(past.astype(float), "semi_strong") < 1 + 1e-6
    kept = np.minimum(T, values(past.astype(float), notion, exposed))
    both = np.vstack([past, matrix(rows, n)]).astype(float)
    assert (values(both, notion, exposed) >= kept - 1e-6).all()
    assert ((values(both, "semi_strong") < 1 + 1e-6) == exposed).all()
    view = View(0, np.ones(n, bool), np.zeros(n, np.int64), before=past, history=())
    assert policy.client_guarantees(view) == pytest.approx(kept)


def values(P, notion, exposed=None):
    """The notion's value, of each client where it has one of its own; weak: of those who are not exposed."""
    rows, n = P.shape
    if notion == "weak":
        others = ~exposed
        rest = privacy_brute.exact(P[:, others]) if others.any() else []
        least = privacy_brute.weak(rest) if others.any() and P[:, others].any() else np.inf
        return np.where(exposed, 1.0, float(least))
    least = []
    for i in range(n):  # of v = P' l: |v_j| <= m_j, v_i = 1
        if not P[:, i].any():
            least.append(np.inf)
            continue
        below = np.block([[P.T, -np.eye(n)], [-P.T, -np.eye(n)]])
        objective, one = np.append(np.zeros(rows), np.ones(n)), np.append(P[:, i], np.zeros(n))[None]
        free = [(None, None)] * rows + [(0, None)] * n
        least.append(linprog(objective, below, np.zeros(2 * n), one, [1.0], free, method="highs").fun)
    return np.array(least)


@pytest.mark.parametrize("answer", ["nothing", "spoiled", "old"])
def test_what_the_solver_does_not_certify_is_not_admitted(monkeypatch, answer):
    """Whatever it says: a status that is not optimal, an optimum that is none, or one of the span without the row."""
    monkeypatch.setattr(certificates, "nearby", nothing_nearby)
    guard = Guard.of(np.arange(24, dtype=np.int32).reshape(-1, 4), 24, 4, "semi_strong", None)
    row = np.arange(0, 24, 3)
    assert guard.with_row(row) is not None
    solve = certificates.CertificateProgramme.solve

    def disturbed(programme, i, T, basis):
        weights, after = solve(programme, i, T, basis)
        if answer == "old":
            weights = guard.certificates.weights[i].copy()
        else:
            weights[i] = 0.0
        return None if answer == "nothing" and i == 5 else (weights, after)

    monkeypatch.setattr(certificates.CertificateProgramme, "solve", disturbed)
    assert guard.with_row(row) is None


@pytest.mark.parametrize("excess", [1e6, 1e-4, 1e-7])
def test_one_client_that_is_not_certified_is_enough_to_refuse_a_row(monkeypatch, excess):
    """Whoever it is, and be its weights too large by a ten-millionth: the solver spoils one client's in each turn."""
    monkeypatch.setattr(certificates, "nearby", nothing_nearby)
    guard = Guard.of(np.arange(24, dtype=np.int32).reshape(-1, 4), 24, 4, "semi_strong", None)
    rng, solve, asked = np.random.default_rng(0), certificates.CertificateProgramme.solve, []

    def spoiled(programme, i, T, basis):
        asked.append(i)
        weights, after = solve(programme, i, T, basis)
        others = np.where(np.arange(24) == i, -np.inf, weights)
        weights[others.argmax()] += excess * (i == spoiled.client)
        return weights, after

    monkeypatch.setattr(certificates.CertificateProgramme, "solve", spoiled)
    spoiled.client, wider = None, None
    while wider is None or not {0, 23} < set(asked):  # the first and the last of all, whose columns are nobody else's
        asked.clear()
        row = np.array([0, *np.sort(rng.choice(np.arange(4, 20), 6, replace=False)), 23])
        wider = guard.with_row(row)
    for spoiled.client in sorted(set(asked)):
        assert guard.with_row(row) is None
    spoiled.client = next(iter(set(range(24)) - set(asked)))
    assert guard.with_row(row) is not None


def test_no_certificate_where_there_is_none():
    with pytest.raises(ValueError, match="semi-strong"):
        Certificates.of(np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=bool), 4)
    with pytest.raises(ValueError, match="weak"):
        Guard.of(np.array([[0, 1], [2, 3]], dtype=np.int32), 4, 3, "weak", None)


@given(seed=st.integers(0, 2**20), n=st.integers(4, 9), rows=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_weak_by_exhaustion(seed, n, rows):
    P = np.random.default_rng(seed).random((rows, n)) < 0.5
    P = P[P.any(axis=1)]
    if not len(P):
        return
    span = Span.empty(n, 3)
    for row in P:
        span = span.with_row(row) or span
    least = privacy_brute.weak(privacy_brute.exact(P))
    assert span.rank == privacy_brute.rank(privacy_brute.exact(P))
    assert [keeps_weak(span, T) for T in (1, 2, 3, 4)] == [least >= T for T in (1, 2, 3, 4)]


def span_modulo(primes, rows):
    """The span of rows, (n, clients), with primes that nobody would draw."""
    nothing = np.zeros((0, rows.shape[1]), dtype=np.uint64), np.zeros(0, dtype=np.int64)
    span = Span(tuple(Form(prime, *nothing) for prime in primes))
    for row in rows:
        span = span.with_row(row)
    return span


@pytest.mark.parametrize("primes", [(3, 4294967291), (4294967291, 3)])
def test_a_row_on_which_two_primes_disagree_is_refused(primes):
    """All but one of four clients, in turn: the determinant is -3, so that the last row is dependent modulo 3 only."""
    rows = ~np.eye(4, dtype=bool)
    span = span_modulo(primes, rows[:3])
    assert span.rank == 3 and span.with_row(rows[3]) is None
    assert span.with_row(rows[0]) is span
    assert Guard(2, "weak", span).with_row(np.flatnonzero(rows[3])) is None


@pytest.mark.parametrize("T", [2, 3, 4])
def test_one_prime_is_enough_to_prove_the_weak_notion(T):
    """Modulo 3 the random images of columns vanish or are parallel by chance; the other prime knows better."""
    rows = np.repeat(np.eye(3, dtype=bool), 4, axis=1)
    assert not keeps_weak(span_modulo((3, 3), rows), T)
    assert keeps_weak(span_modulo((3, 4294967291), rows), T) and keeps_weak(span_modulo((4294967291, 3), rows), T)


# -- any half-batches ---------------------------------------------------------------------------------


def test_of_half_batches_the_balanced_sets_are_admitted_and_tell_nothing_new():
    """As many at even as at odd places of the circle lie in the span of the neighbours; the others are refused."""
    halves = np.arange(24, dtype=np.int32).reshape(12, 2)
    guard = Guard.of(guarded(24, 8, 4, "half").reserved.family(24).units(), 24, 4, "semi_strong", None)
    assert guard.span.rank == 11
    for size in (1, 2, 4):
        for chosen in itertools.islice(itertools.combinations(range(12), size), 0, None, size):
            wider = guard.with_row(halves[list(chosen)].ravel())
            assert wider is (guard if 2 * sum(half % 2 for half in chosen) == size else None)


@pytest.mark.parametrize(("n", "k", "T"), [(48, 12, 6), (48, 8, 8)])
def test_any_half_batches_have_the_guarantees_of_half_partition(n, k, T):
    """Strong, semi-strong, weak and rank, also after failures; where neighbours are there it skips no round, and fewer
    rounds in all.
    """
    inner = {"name": "batch_partition", "k": k, "T": T // 2, "mode": "fair"}
    policy = guarded(n, k, T, "half", inner=inner, tries=20)
    rows, refused = play(policy, n, 80, seed=1, dropout=0.3, failing=0.02)
    found = multi_round(matrix(rows, n))
    assert found.strong >= T // 2 and found.semi_strong >= T and found.weak_lower >= T and refused
    assert np.linalg.matrix_rank(matrix(rows, n)) <= 2 * n // T - 1
    rng, both, more = np.random.default_rng(2), 0, 0
    for t in range(60):
        view = View(t, rng.random(n) >= 0.3, np.zeros(n, dtype=np.int64), history=())
        neighbours, any_halves = (each.select(view, k, rng).size for each in (policy.reserved, policy))
        assert any_halves >= neighbours
        both, more = both + (neighbours > 0), more + (any_halves > neighbours)
    assert both > 10 and more > 5


# -- degenerate cases ---------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{"rank": 6}, {"inner": {"name": "batch_partition", "k": 4, "T": 2, "mode": "fair"}}])
def test_no_room_or_the_reserved_policy_itself_is_the_reserved_policy(keys):
    """The same rows from the same streams, and the same participation ever after."""
    policy, alone = guarded(12, 4, 2, "batch", **keys), POLICIES["batch_partition"](k=4, T=2, mode="fair")
    rng, history, participation = np.random.default_rng(1), [], np.zeros(12, dtype=np.int64)
    skipped = 0
    for t in range(200):
        view = View(t, rng.random(12) < 0.5, participation, history=tuple(history))
        one = policy.select(view, 4, np.random.default_rng(t))
        assert np.array_equal(one, alone.select(view, 4, np.random.default_rng(t)))
        assert policy.admits(view, one.ravel())
        participation[one.ravel()] += 1
        history += [np.sort(one.ravel())] if one.size else []
        skipped += not one.size
    assert 20 < skipped < 180


def test_the_rank_never_exceeds_its_cap():
    for cap in (4, 5, 7):
        rows, _ = play(guarded(12, 6, 3, "batch", rank=cap, notion="weak"), 12, 60, seed=cap)
        everything = np.vstack([matrix(rows, 12), matrix(np.arange(12).reshape(4, 3), 12)])
        assert np.linalg.matrix_rank(everything) == cap


def test_answers_depend_on_nothing_but_the_view():
    """Another policy object, asked in any order and between other histories, gives the same sets."""
    first = guarded(16, 8, 4, "half")
    rows, _ = play(first, 16, 25, seed=3)
    for upto in (len(rows), 2, 5, 0, len(rows)):
        view = View(upto, np.arange(16) % 5 > 0, np.zeros(16, np.int64), history=tuple(rows[:upto]))
        again = guarded(16, 8, 4, "half").select(view, 8, np.random.default_rng(upto))
        assert np.array_equal(first.select(view, 8, np.random.default_rng(upto)), again)


def test_what_was_admitted_before_is_asked_anew_after_every_row():
    """Two rows that isolate client 0 together: each alone is admitted, after the other it is not, in any order."""
    one, other = (np.array(row, dtype=np.int32) for row in ([0, 4, 5, 8, 9, 12], [0, 6, 7, 10, 11, 13]))
    policy = guarded(16, 8, 4, "batch")

    def admits(row, *history):
        return policy.admits(View(0, np.ones(16, bool), np.zeros(16, np.int64), history=history), row)

    assert admits(one) and admits(other)
    assert admits(one, one) and not admits(other, one)
    assert admits(other, other) and not admits(one, other), "another history of as many rows"
    assert admits(one) and admits(other)


def test_rows_that_were_never_admitted_are_named():
    view = View(1, np.ones(12, bool), np.zeros(12, np.int64),
                history=(np.arange(6, dtype=np.int32), np.array([0], np.int32)))  # fmt: skip
    with pytest.raises(PluginError, match="row 1 was summed, but never admitted"):
        guarded(12, 6, 3, "batch").admits(view, np.arange(6, dtype=np.int32))


def test_shuffled_clients_are_guarded_by_their_places():
    rng = np.random.default_rng(8)
    order = rng.permutation(12)
    policy = shuffle_clients(guarded(12, 6, 3, "batch"), order)
    rows, refused = play(policy, 12, 60, seed=5, failing=0.2)
    units = order[np.arange(12).reshape(4, 3)]
    assert worst(np.vstack([matrix(rows, 12), matrix(units, 12)]), "semi_strong") >= 3 and refused
    assert any(len(set(row.tolist()) & set(unit)) in (1, 2) for row in rows for unit in units.tolist())


# -- whole runs ---------------------------------------------------------------------------------------

SCENARIO = """
clients: 24
devices:
  availability: {name: bernoulli, dropout: 0.3}
  computation: {name: random, distribution: {name: exponential, mean: 1.0}}
  failure: {name: bernoulli, probability: 0.06}
network: {name: star, latency_s: 0.1}
selection: {name: guarded, inner: {name: random, k: 8}, T: 4}
training: {name: fedavg, rounds: 80, on_failure: drop_unit}
learning: none
"""


def played(out, *overrides):
    done = ResultsFolder.open(run(Scenario.parse(SCENARIO, "guarded", list(overrides)), out).path)
    P = np.zeros((80, 24))
    for line in (done.path / "participation.csv").read_text().splitlines()[1:]:
        t, client, weight = line.split(",")
        P[int(t), int(client)] = float(weight)
    return done.summary, P


@pytest.mark.parametrize("failures", ["drop_unit", "partial", "abort"])
@pytest.mark.parametrize(
    "secagg", ["ideal", "{name: secagg, deadline_s: 2.0}", "lightsecagg", "{name: secagg_plus, execute: cost_only}"]
)
def test_sums_keep_the_guarantee_whoever_fails_in_whatever_phase(tmp_path, failures, secagg):
    summary, P = played(tmp_path, f"training.on_failure={failures}", f"secagg={secagg}", "training.deadline_s=4")
    closed = "deadline_s" not in secagg and secagg != "lightsecagg"  # else the server may open sums that fail
    assert summary["guarantee_semi_strong"] == summary["guarantee_weak"] == (4 if closed else 1)
    assert summary["privacy_semi_strong"] >= 4
    assert worst(np.vstack([P[P.any(axis=1)], matrix(np.arange(24).reshape(6, 4), 24)]), "semi_strong") >= 4
    assert P.any(axis=1).sum() + summary["skipped"] == 80
    assert (summary["refused_sum"] > 0) == (failures != "abort")
    assert summary["refused_sum"] <= summary["skipped"]


@pytest.mark.parametrize("T", [2, 3, 4])
def test_weak_runs_keep_the_weak_guarantee(tmp_path, T):
    keys = f"selection={{name: guarded, inner: {{name: weighted, k: 12}}, T: {T}, notion: weak}}"
    summary, P = played(tmp_path, keys, "training.on_failure=partial")
    assert summary["privacy_weak_lower"] >= T and summary["guarantee_weak"] == T
    assert "guarantee_semi_strong" not in summary or summary["guarantee_semi_strong"] is None
    assert np.linalg.matrix_rank(P) > 24 // T


def test_clients_without_samples_are_not_in_the_row_that_is_asked_for(tmp_path):
    """A unit with a client that holds nothing hides fewer than T: its sums are refused."""
    few = "{name: quantity, proportions: {name: log_normal, median: 1, sigma: 4}}"
    learning = f"{{data: digits, partition: {few}, model: logistic}}"
    summary, P = played(tmp_path, f"learning={learning}", "training.weighting=samples")
    with next(tmp_path.rglob("clients.csv")).open() as table:
        assert "0" in {row["samples"] for row in csv.DictReader(table)}
    assert summary["refused_sum"] > 0
    assert summary["privacy_semi_strong"] >= 4


@pytest.mark.parametrize("notion", ["semi_strong", "weak"])
def test_killed_and_resumed_the_rows_are_the_same(tmp_path, notion):
    """Nothing of the guard is in a checkpoint; each process reads the scenario anew."""

    def made():
        keys = ["training.rounds=12", f"selection.notion={notion}", "devices.availability.dropout=0.4"]
        return Scenario.parse(SCENARIO, "guarded", keys)

    with counted() as steps:
        expected = files(run(made(), tmp_path / "whole").path)
    for step in range(5, steps.done, steps.done // repeats(4, 9)):
        assert killed_at(step, lambda step=step: run(made(), tmp_path / str(step)))
        assert files(run(made(), tmp_path / str(step)).path) == expected


# -- what is refused, what theory says ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("selection.T=5", "selection.T: is 5 but 24 clients cannot be split"),
        ("selection.inner.k=6", "selection.inner.k: is 6, no multiple of T = 4; the nearest valid values are 4 and 8"),
        ("selection={name: guarded, inner: {name: random, k: 12}, T: 6, notion: weak}", "selection.T: .* up to 4; use"),
        ("selection.rank=3", "selection.rank: is 3, .* has rank 6; the nearest valid value is 6"),
        ("selection={name: guarded, inner: {name: random, k: 8}, T: 4, reserve: half, rank: 9}", "has rank 11"),
        (
            "training=fedbuff:concurrency=16,buffer=8",
            "selection.name: .* under training: fedbuff: its rows are known",
        ),
        ("training=serverless", "selection.name: .* not under training: serverless: each client knows its own part"),
        ("privacy.rows=weights", "selection.notion: .* weigh less than T; use privacy.rows: units"),
        ("clients=2400", "selection.name: .* up to 2,000 clients, not 2,400"),
        ("selection.inner={name: batch_partition, k: 8, T: 2, shuffle: true}", "selection.inner.shuffle: is true"),
        ("selection.inner={name: guarded, inner: {name: random, k: 8}, T: 4}", "selection.inner: is guarded, which"),
    ],
)
def test_one_line_says_what_does_not_fit(override, message):
    with pytest.raises(InvalidScenario, match=message) as refused:
        Scenario.parse(SCENARIO, "guarded", [override])
    assert len(refused.value.problems) == 1


def test_theory_knows_the_guarantee_of_the_notion_only():
    known = theory(Scenario.parse(SCENARIO, "guarded", []))
    assert known["guarantee"] == {"strong": None, "semi_strong": 4, "weak": 4}
    assert known["expected_cardinality"] is None and known["family_size"] is None
    known = theory(Scenario.parse(SCENARIO, "guarded", ["selection.notion=weak", "training.on_failure=partial"]))
    assert known["guarantee"] == {"strong": None, "semi_strong": None, "weak": 4}
    single = theory(Scenario.parse(SCENARIO, "guarded", ["training.aggregate=median", "training.weighting=equal"]))
    assert set(single["guarantee"].values()) == {1}
