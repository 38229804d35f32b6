"""Wrong plugins, planted: the recorder and its judge find each of them."""

from unittest import mock

import numpy as np
import pytest

from simfl.agents.aggregation.pipeline import AggregationPipeline
from simfl.clients.local_training import Scaffold
from simfl.core.errors import PluginError
from simfl.core.payload import MASK, UPDATE
from simfl.papers.lottery_tickets.fedltn import JumpStart
from simfl.papers.lottery_tickets.sparse import Sparse
from simfl.papers.privacyfl import pairwise_ratchet
from simfl.privacy.certify import maps
from simfl.privacy.certify.maps import Noise
from simfl.privacy.dp.accountants import zero_out
from simfl.privacy.dp.losses import EpsilonTimeline
from simfl.privacy.dp.stages.central_gaussian import Clipping
from simfl.privacy.dp.stages.local_noise import LocalGaussian
from simfl.secagg.masked_protocol import MaskedProtocol
from simfl.secagg.pairwise_session import PairwiseClient
from tests.support.judge import judged, played
from tests.support.pairs import Plugin, cell

SCAFFOLD, LOTTERY, JUMP = (
    Plugin("client", "scaffold"),
    Plugin("personal", "lotteryfl"),
    Plugin("personal", "jump_start"),
)
CLIPPING, PLAIN = Plugin("stage", "clipping"), Plugin("secagg", "plain")
NOISE, SECAGG = Plugin("stage", "local_gaussian"), Plugin("secagg", "secagg")
ZERO_OUT, RATCHET, LAYERS = (
    Plugin("accountant", "zero_out"),
    Plugin("secagg", "pairwise_ratchet"),
    Plugin("personal", "private_layers"),
)


def no_noise(self, vectors, jobs, state, streams):
    return maps.clip_norms(vectors, self.clip_norm)


noised, masked = LocalGaussian.client, PairwiseClient.mask


def half_noised(self, vectors, jobs, state, streams):
    sent, half = noised(self, vectors, jobs, state, streams), vectors.shape[1] // 2
    sent[:, half:] = maps.clip_norms(vectors, self.clip_norm)[:, half:]
    return sent


def half_masked(self, vector):
    sent, half = masked(self, vector), len(vector) // 2
    sent[half:] = vector[half:] % (2**32 - 5)
    return sent


def unmasked(self, number, vector):
    return vector % (2**32 - 5)


def first_in_clear(self, vector):
    sent = masked(self, vector)
    sent[0] = vector[0] % (2**32 - 5)
    return sent


def no_loss(history, delta):
    rounds, clients = history.shape
    return EpsilonTimeline(np.zeros(rounds), np.zeros(rounds), np.zeros(clients))


MUTANTS = {
    "a stage that adds no noise": ((NOISE, PLAIN), LocalGaussian, "client", no_noise),
    "a stage that noises half of the update": ((NOISE, PLAIN), LocalGaussian, "client", half_noised),
    "a stage that says it noises": ((CLIPPING, PLAIN), Clipping, "adds_noise", Noise("client")),
    "a protocol that masks nothing": ((RATCHET,), pairwise_ratchet.RatchetClient, "mask", unmasked),
    "a protocol that sums half of the update in clear": ((SECAGG,), PairwiseClient, "mask", half_masked),
    "a protocol that shows the first number": ((SECAGG,), PairwiseClient, "mask", first_in_clear),
    "a protocol that charges half of its bytes": ((SECAGG,), MaskedProtocol, "upload_bytes", lambda _, sizes, d: 2 * d),
    "an accountant that needs no noise": ((ZERO_OUT,), zero_out, "epsilon_timeline", no_loss),
    "an algorithm that does not declare its whole model": ((JUMP,), JumpStart, "sends", (UPDATE, MASK)),
    "an algorithm that does not declare its array": ((SCAFFOLD,), Scaffold, "sends", (UPDATE,)),
    "an algorithm whose masks cost nothing": ((LOTTERY,), Sparse, "bytes_up", lambda self, dense, own, done: 4 * 10),
    "an algorithm that sends what it keeps": (
        (LAYERS, SECAGG), AggregationPipeline, "_sent", lambda self, values: values),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_found(name, tmp_path):
    chosen, owner, attribute, wrong = MUTANTS[name]
    place = mock.patch.object(owner, attribute, wrong)
    with place:
        cell.__globals__["_tried"].cache_clear()
        found = cell(*chosen)
        assert found.scenario, found.reason
        try:
            problems = judged(*played(found.scenario, tmp_path / "mutant"))
        except (PluginError, ValueError) as error:
            problems = [str(error)]
    cell.__globals__["_tried"].cache_clear()
    assert problems, name
