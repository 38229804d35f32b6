"""XNoise in its sessions: whoever fails, and whenever, the sum is that of the values and of the noise that is kept."""

import itertools

import numpy as np
import pytest

from simfl.core.rng import Streams
from simfl.core.types import Job
from simfl.privacy.dp.stages.discrete_noise import Points
from simfl.runs.run import run
from simfl.secagg import pairwise
from simfl.secagg.crypto.field import Q, to_signed
from simfl.secagg.crypto.keys import ProtocolViolation, secret
from simfl.secagg.neighbours import circle
from simfl.secagg.pairwise_session import PairwiseClient, PairwisePlan, PairwiseServer, Secrets
from simfl.secagg.sessions import SessionFailure
from tests.privacy.test_dp_stages import FEDAVG, made, members, rows, scenario
from tests.secagg.test_sums import FIVE, LEAVES, PAIRS, SINGLES, D, numbers, pairwise_in_words, play
from tests.secagg.test_sums import made as protocol_of

TO = Points(D, 50.0, 1e9, 1e9)
"""Whole numbers for five coordinates."""


def judged(protocol, units, fates, tolerance, seed=1):
    """Plays the sessions and the server's part: bit for bit what it must be, or a failure with its phase's name."""
    n, streams = sum(map(len, units)), Streams(seed)
    k, t = protocol.sizes(n)
    expected = pairwise_in_words(units, fates, circle(n, k, streams("secagg/circle", 3)), t)
    end, _, _ = play(protocol, units, fates, seed, seeds=tolerance)
    if isinstance(expected, str):
        assert isinstance(end, SessionFailure) and end.reason.startswith(f"{expected}: "), (fates, end)
        return None
    stage = made("xnoise", sharers=n, tolerance=tolerance, noise_multiplier=2.0)
    jobs = {c: Job(70 + c, c, 0, 0.0) for c in expected}
    values = numbers(seed, expected)
    seeds = {c: stage.secrets(jobs[c], streams) for c in expected}
    sent = {c: values[c] + stage.noise(jobs[c], TO, streams) for c in expected}
    found = pairwise.replay_sessions(end.secret, sent, streams, seeds)
    missing = n - len(expected)
    opened = tolerance - missing if missing <= tolerance else 0
    assert found.opened == ({c: seeds[c][tolerance - opened :] for c in expected} if opened else {}), fates
    summed = members(len(expected))._replace(opened=tuple(found.opened[c] for c in expected if opened))
    left = to_signed(found.sums) - stage.surplus(summed, TO)
    kept = [
        values[c] + stage.noise(jobs[c], TO, streams) - sum((stage._part(s, tolerance - opened + 1 + i, TO)
        for i, s in enumerate(seeds[c][tolerance - opened :])), np.zeros(D, dtype=np.int64))
        for c in expected
    ]  # fmt: skip
    assert ((left - np.sum(kept, axis=0)) % Q == 0).all(), fates
    parts = [stage.parts()[: tolerance - opened + 1].sum() for _ in expected]
    if missing <= tolerance:
        assert sum(parts) / n == pytest.approx(1.0, rel=1e-12), "exactly the variance asked for"
    return missing


@pytest.mark.parametrize("units, tolerance", [(SINGLES, 2), (PAIRS, 2)])
def test_every_drop_of_four_leaves_the_noise_that_is_kept(units, tolerance):
    protocol = protocol_of("secagg", threshold=0.3)
    drops = [judged(protocol, units, fates, tolerance) for fates in itertools.product(LEAVES["pairwise"], repeat=4)]
    assert {0, 2} <= set(drops) and None in drops


def test_drops_among_neighbours_do_so_too():
    protocol, rng = protocol_of("secagg_plus", neighbours=4, threshold=2), Streams(5)("fates")
    chosen = [tuple(rng.choice(LEAVES["pairwise"], 5, p=[0.6, 0.1, 0.1, 0.1, 0.1])) for _ in range(60)]
    drops = [judged(protocol, FIVE, fates, 3) for fates in chosen]
    assert {0, 1, 2} <= set(drops)


def sessions(n=4, tolerance=2, t=2):
    """Clients that have shared all their secrets, and the server."""
    plan = PairwisePlan(0, circle(n, n - 1, Streams(0)("circle")), t, np.arange(n), 2)
    further = {u: [secret(Streams(0), "further", u, j) for j in range(tolerance)] for u in range(n)}
    clients = [PairwiseClient(plan, u, Secrets.of(Streams(0), 0, u), further[u]) for u in range(n)]
    server = PairwiseServer(plan)
    published = server.publish({u: clients[u].advertise() for u in range(n)})
    forwarded = server.forward({u: clients[u].share(published[u]) for u in range(n)})
    for u in range(n):
        clients[u].receive(forwarded[u])
    return clients, server, further


def test_seeds_of_those_who_fail_after_their_upload_come_of_shares():
    clients, server, further = sessions()
    answers = {u: clients[u].unmask([v for v in range(4) if v != u], 2) for u in (0, 1)}
    revealed = {u: clients[u].reveal() for u in (0, 1)}
    assert server.further(range(4), 2, revealed, answers) == {u: tuple(further[u]) for u in range(4)}
    assert server.further(range(4), 2, {}, answers | {2: clients[2].unmask([0, 1, 3], 2)}) == {
        u: tuple(further[u]) for u in range(4)
    }
    with pytest.raises(ProtocolViolation, match="1 shares, but 2 are needed"):
        server.further(range(4), 2, {0: clients[0].reveal()}, {0: answers[0]})


def test_clients_keep_the_seeds_of_noise_that_is_needed():
    """One is missing of four, two drops are tolerated: the second seed is opened, the first never."""
    clients, _, further = sessions()
    with pytest.raises(ProtocolViolation, match="stay closed"):
        clients[0].unmask([1, 2], 2)
    answer = clients[1].unmask([0, 2], 1)
    assert clients[1].reveal() == (further[1][1],)
    assert all(share.further.shape == ((1, 9) if share.self_mask else (0, 9)) for share in answer.values())
    clients[2].unmask([0, 1], 0)
    assert clients[2].reveal() == ()


def test_a_run_takes_off_what_its_sessions_open(tmp_path):
    """Failures in every phase; with the mathematics and without, the model is the same but for the grid."""
    failing = "devices.failure={name: bernoulli, probability: 0.1, phases: {share: 0.1, unmask: 0.3}}"
    some = (failing, "devices.availability=always", "training.rounds=4", "selection.k=6")
    models, opened = [], []
    for execute in ("true", "cost_only"):
        done = run(scenario("xnoise", FEDAVG, *some, f"secagg.execute={execute}", tolerance=3), tmp_path / execute)
        models.append(np.load(done.path / "model.npy"))
        opened.append(
            [(row["bytes_up"], row["failed_unmask"], row["noise_std"]) for row in rows(done.path, "rounds.csv")]
        )
    np.testing.assert_allclose(models[0], models[1], atol=2e-5)
    assert opened[0] == opened[1] and any(int(failed or 0) for _, failed, _ in opened[0])
