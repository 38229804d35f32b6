"""A small scenario and what is said about a wrong one, for the tests of the scenario and the command line."""

import pytest

from simfl.scenario import InvalidScenario, Scenario

GOOD = """\
clients: 40
network: {name: star, latency_s: {name: log_normal, median: 0.08, sigma: 0.5}}
devices:
  availability: {name: bernoulli, dropout: 0.2}
  failure: {name: bernoulli, probability: 0.02}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 60, batch_size: 20}
learning: none
"""


def messages(text, overrides=()):
    with pytest.raises(InvalidScenario) as caught:
        Scenario.parse(text, "s.yaml", overrides)
    return str(caught.value).splitlines()
