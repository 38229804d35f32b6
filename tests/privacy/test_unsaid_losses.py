"""Losses that a stage does not say, or says wrong, are infinite for every accountant, and over all runs of a search."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from simfl.core.types import SERVER
from simfl.plugins.privacy import Clip, Loss, Noise, Stage
from simfl.privacy.accountant import History
from simfl.privacy.certify.observer_view import ObserverView
from simfl.privacy.dp.accountants.pld_and_rdp import Pld, Rdp
from simfl.privacy.dp.losses import epsilon_timeline, run_losses

ROUNDS, CLIENTS, DELTA = 2, 3, 1e-5
MU, NOT_A_NUMBER = np.ones(ROUNDS), np.full(ROUNDS, np.nan)
ALL, NOBODY = csr_array(np.ones((ROUNDS, CLIENTS))), csr_array((ROUNDS, CLIENTS))


def stage_of(noise, said):
    @dataclass(frozen=True)
    class Own(Stage):
        name = "own"
        adds_noise = noise
        maps = (Clip(1.0),)
        server_maps = ()

        def loss(self, facts, bound):
            return said

    return Own()


def seen(P, noise=None, said=None, facts=MU, **view):
    stages = () if noise is None else (stage_of(noise, said),)
    views = {SERVER: replace(ObserverView.of_sums(P), **view)}
    return History(views, ({"std": facts},) if stages else (), stages)


LEFT_OPEN = {
    "an empty loss": seen(ALL, Noise("server"), Loss()),
    "no number": seen(ALL, Noise("server"), Loss(mu=NOT_A_NUMBER)),
    "below 0": seen(ALL, Noise("server"), Loss(mu=MU, pure=-5 * MU)),
    "no number, of updates in no sum": seen(NOBODY, Noise("client"), Loss(pure=NOT_A_NUMBER), alone=ALL),
    "nothing said, of updates in no sum": seen(NOBODY, Noise("client"), Loss(mu=MU), NOT_A_NUMBER, alone=ALL),
    "nobody counts updates": seen(NOBODY, Noise("client"), Loss(mu=MU), alone=None),
    "shares that were opened": seen(
        ALL, Noise("share", field=True, gaussian=True), Loss(mu=MU), tolerated=np.full(ROUNDS, -1.0)),
    "no noise, and sums that were opened": seen(NOBODY, tolerated=np.full(ROUNDS, -1.0)),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT_OPEN)
def test_what_is_not_known_is_infinite_for_everybody(case):
    history = LEFT_OPEN[case]
    timeline = epsilon_timeline(history, DELTA)
    assert np.isinf(timeline.most).all() and np.isinf(timeline.median).all() and np.isinf(timeline.last).all()
    assert all(np.isinf(loss.epsilons(DELTA)).all() for loss in run_losses(history))


@pytest.mark.parametrize("accountant", [Pld, Rdp])
@pytest.mark.parametrize("case", [*LEFT_OPEN, "more than Gaussian noise"])
def test_accountants_of_gaussian_noise_read_the_whole_loss(case, accountant):
    pytest.importorskip("dp_accounting")
    more = seen(ALL, Noise("server", gaussian=True), Loss(mu=MU, pure=5 * MU))
    assert list(accountant(delta=DELTA).epsilons(LEFT_OPEN.get(case, more)))[-1] is None


def test_what_is_known_stays_finite():
    history = seen(ALL, Noise("share", field=True, gaussian=True), Loss(mu=MU))
    assert epsilon_timeline(history, DELTA).most[-1] == pytest.approx(6.57297, rel=1e-5)  # mu = sqrt(2)
