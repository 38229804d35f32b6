"""What reaches the server of an update under a protocol that hides it, as bytes: nothing of the update is in them."""

import numpy as np
import pytest
from scipy.stats import kstest

from simfl.cli.validate_plugins import FEDAVG, FEDBUFF, scene
from simfl.core.registration.family_index import FAMILIES
from simfl.probes.declarations import parse
from simfl.probes.simulate import simulate
from simfl.secagg.base import PROTOCOLS
from simfl.secagg.crypto.field import Q
from simfl.secagg.pairwise_session import PairwiseClient
from tests.support.wiretap import recorded

HIDING = [name for name, cls in PROTOCOLS.items() if cls.__module__.startswith("simfl.") and name != "plain"]
ONES = np.ones((8, 3))


def played(name):
    for training in (FEDAVG | {"rounds": 8}, FEDBUFF | {"rounds": 8}):
        plugin = {"name": name, **FAMILIES["secagg"][name].example}
        units = {"selection": {"name": "batch_partition", "k": 4, "T": 2}} if PROTOCOLS[name].sums_units else {}
        if (scenario := parse(scene(secagg=plugin, training=training, clients=8, **units))) is not None:
            with recorded() as tape:
                simulate(scenario, ONES)
            return scenario, [pair for found in tape.sums for pair in found.wire]
    raise AssertionError("no scene fits it")


def told(pairs):
    """Why what was sent tells of what was to be sent, in words; empty where it does not."""
    before, after = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    if (before % Q == after % Q).mean() > 1e-3:
        return "numbers are sent as they are"
    uniform = kstest((after.astype(np.float64) % Q) / Q, "uniform").pvalue
    return "" if uniform > 1e-6 else "what is sent is not uniform in the field"


@pytest.mark.parametrize("name", HIDING)
def test_what_is_sent_under_masks_is_uniform_whatever_the_update(name):
    scenario, pairs = played(name)
    if scenario.secagg.assumes:
        assert not pairs
        return
    assert len(pairs) >= 16, "the recorder does not know the messages of this protocol"
    assert told(pairs) == ""


@pytest.mark.parametrize("wrong", [lambda self, vector: vector % Q, lambda self, vector: (vector + 12345) % Q])
def test_messages_without_masks_are_found(wrong, monkeypatch):
    monkeypatch.setattr(PairwiseClient, "mask", wrong)
    assert told(played("secagg")[1])
