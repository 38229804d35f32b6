"""What a plugin does not say counts as the worst: without its declarations, one by one or all, no built-in plugin gets
a better certificate.
"""

import csv
import inspect
from dataclasses import fields
from math import inf

import pytest

from simfl.clients.base import CLIENTS, PERSONAL, ClientAlgorithm
from simfl.compression.base import COMPRESSIONS, Compression
from simfl.core.errors import SimflError
from simfl.devices.base import AVAILABILITY, COMPUTATION, FAILURE, Availability, Computation, Failure
from simfl.learning.base import LEARNING, Learning
from simfl.learning.partitions.base import PARTITIONS, Partition
from simfl.network.base import NETWORKS, Network
from simfl.privacy.accountant import Accountant
from simfl.privacy.base import PRIVACY
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.secagg.base import PROTOCOLS, Protocol
from simfl.selection.base import POLICIES, Policy
from simfl.selection.theory.expected_cardinality import theory
from simfl.training.base import RULES, Rule

NONE = "learning={name: none, parameters: 10}"
DIGITS = "learning={data: digits, model: logistic}"
SMALL = """
clients: 8
seed: 4
selection: {name: batch_partition, k: 8, T: 2}
training: {name: fedavg, rounds: 3, weighting: equal, batch_size: 200}
privacy: {colluders: 1}
"""
COLLUDED = "privacy={colluders: 1, stages: [{name: %s}], accountants: [{name: zero_out}]}"
PERTURBED = (COLLUDED % "output_perturbation, epsilon: 1.0, samples: 50, alpha: 0.5", "training.weight_decay=0.5")
FAILING = "devices.failure={name: bernoulli, probability: 0.1}"
SUBSETS = "selection={name: batch_partition, k: 4, T: 2}"
BUFFERED = "training={name: fedbuff, rounds: 3, concurrency: 8, buffer: 4, weighting: equal, batch_size: 200}"

CHANGES_BEHAVIOUR = {
    # what somebody does, or is asked to do: without it another thing happens, which is certified as it is
    Protocol: {"setup", "prepare", "recover", "add", "upload_bytes", "counting", "columns", "known_to", "deadline_s"},
    Compression: {"client", "size_bytes", "coordinates", "length", "error_feedback"},
    ClientAlgorithm: {
        "combine", "for_model", "common", "begin", "end", "update_common", "after_round", "bytes_down", "bytes_up",
        "personal", "pretraining", "pretrained_state", "tune", "columns", "private", "uses_outcomes", "needs_server",
    },
    Policy: {"select", "candidates", "start", "observe", "admits", "asks", "asked_batch", "shuffle", "mode", "columns"},
    Rule: {"algorithm", "columns", "quorum_clients", "advances", "own_models", "ends", "step"},
    Learning: {"build", "preview", "without_remote_clients", "external", "uses_cluster", "columns", "validates"},
    Partition: {"split", "prepare"},
    Accountant: {"accounts", "clients", "columns", "rows"},
    Availability: {"build"},
    Computation: {"build"},
    Failure: {"build"},
    Network: {"build"},
}  # fmt: skip
EVERYWHERE = {"name", "example", "check", "cautions", "resolve"}


def declared(cls, base):
    """What a class, or one that it inherits from before the base of its family, declares of what the base has."""
    mine = {name for each in cls.__mro__ if each not in base.__mro__ for name in vars(each)}
    optional = {name for each in base.__mro__ for name in vars(each) if not name.startswith("_")}
    optional -= set(getattr(base, "__abstractmethods__", ()))
    names = mine & optional - CHANGES_BEHAVIOUR[base] - EVERYWHERE - {field.name for field in fields(cls)}
    if base is ClientAlgorithm and cls.sends == ():
        names -= {"sends"}  # of a client that sends nothing everything is hidden, and nothing is promised
    return sorted(name for name in names if inspect.getattr_static(cls, name) is not default(base, name))


def default(base, name):
    return next(vars(each)[name] for each in base.__mro__ if name in vars(each))


def certificate(changes, tmp_path):
    """Every number that a scenario prints of privacy, larger = better, by name; None where it is refused."""
    try:
        scenario = Scenario.parse(SMALL, "small", changes)
        promised = theory(scenario)["guarantee"] or {}
        done = run(scenario, tmp_path, force=True)
    except (SimflError, KeyError, TypeError, AttributeError, ValueError, AssertionError):
        return None
    numbers = {f"theory {notion}": value or 0 for notion, value in promised.items()}
    with open(done.path / "rounds.csv", newline="") as file:
        for row in csv.DictReader(file):
            for name, text in row.items():
                if name.startswith("privacy_"):
                    numbers[f"{name} {row['round']}"] = float(text) if text else inf
                elif name.startswith("epsilon_"):
                    numbers[f"{name} {row['round']}"] = -float(text) if text else -inf
    for name in ("guarantee_strong", "guarantee_semi_strong", "guarantee_weak"):
        numbers[name] = done.summary.get(name) or 0
    return numbers


def better(stripped, whole):
    """The numbers that are better than before: those that were not there before count as the worst."""
    if stripped is None:
        return []
    if whole is None:
        return [
            f"{name}: {value}, refused before" for name, value in stripped.items() if value not in (1, 0, -inf, inf)
        ]
    worst = {name: -inf if name.startswith("epsilon") else 0 for name in stripped}
    told = {name: value if name.startswith("epsilon") else max(value, 1) for name, value in (worst | whole).items()}
    return [f"{name}: {value} > {told[name]}" for name, value in stripped.items() if value > told[name] + 1e-9]


def cases():
    masked = {
        "secagg_plus": "{name: secagg_plus, neighbours: 4, threshold: 3}",
        "oblivious": "{name: oblivious, epsilon: 1.0, samples: 50}",
        "lightsecagg": "{name: lightsecagg, private: 0.3}",
    }
    for name in PROTOCOLS:
        chosen = f"secagg={masked.get(name, name)}"
        base = (BUFFERED, SUBSETS) if name == "basecagg" else ()
        for more in ((NONE,), (NONE, FAILING), (DIGITS, COLLUDED % "skellam, colluders: 1"),
                     (DIGITS, COLLUDED % "laplace_shares"), (DIGITS, "compression={name: quantise}")):  # fmt: skip
            yield PROTOCOLS[name], Protocol, (chosen, *base, *more)
    codes = {"random_k": "{name: random_k, share: 0.5}", "top_k": "{name: top_k, share: 0.5}"}
    for name in COMPRESSIONS:
        chosen = f"compression={codes.get(name, name)}"
        for more in ((), ("secagg=secagg",), (COLLUDED % "central_gaussian",), (COLLUDED % "clipping",),
                     (COLLUDED % "tree_gaussian",)):  # fmt: skip
            yield COMPRESSIONS[name], Compression, (chosen, DIGITS, *more)
    for registry, key in ((CLIENTS, "client"), (PERSONAL, "personal")):
        for name in registry:
            for more in ((), ("secagg=secagg",), (COLLUDED % "central_gaussian",), PERTURBED):
                chosen = "{name: fedprox, mu: 0.1}" if name == "fedprox" else name
                yield registry[name], ClientAlgorithm, (f"training.{key}={chosen}", DIGITS, *more)
    rules = {"fedavg": (), "fedbuff": (BUFFERED, SUBSETS)}
    for name, chosen in rules.items():
        for more in ((), ("secagg=secagg",), (COLLUDED % "central_gaussian",), ("compression=quantise",),
                     ("training.client=privacyfl", COLLUDED % "central_gaussian")):  # fmt: skip
            yield RULES[name], Rule, (*chosen, DIGITS, *more)
    policies = (
        "batch_partition, k: 4, T: 2", "half_partition, k: 4, T: 2", "partition, k: 4", "random, k: 4", "all",
        "bernoulli, k: 4", "guarded, T: 2, inner: {name: random, k: 4}", "oort, k: 4", "weighted, k: 4",
    )  # fmt: skip
    for text in policies:
        for more in ((NONE,), (NONE, FAILING), (DIGITS, COLLUDED % "central_gaussian")):
            yield POLICIES[text.split(",")[0]], Policy, (f"selection={{name: {text}}}", *more)
    for name in PRIVACY:
        yield PRIVACY[name], Accountant, (f"privacy={{name: {name}, stages: [central_gaussian]}}", DIGITS)
    for name in ("always", "bernoulli", "markov"):
        chosen = {
            "bernoulli": "{name: bernoulli, dropout: 0.1}",
            "markov": "{name: markov, mean_on_rounds: 5, mean_off_rounds: 1}",
        }
        yield AVAILABILITY[name], Availability, (f"devices.availability={chosen.get(name, name)}", NONE)
    for name, text in (("none", "none"), ("bernoulli", "0.1")):
        for more in ((), ("secagg=secagg",), ("selection=all",)):
            yield FAILURE[name], Failure, (f"devices.failure={text}", NONE, *more)
    yield NETWORKS["star"], Network, (NONE,)
    yield COMPUTATION["constant"], Computation, ("devices.computation=1", NONE)
    for more in ((), ("training.weighting=samples", "privacy.rows=weights")):
        yield LEARNING["none"], Learning, (NONE, *more)
    for more in ((), ("training.weighting=samples", "privacy.rows=weights"), PERTURBED):
        yield LEARNING["supervised"], Learning, (DIGITS, *more)
        yield PARTITIONS["iid"], Partition, (DIGITS, *more)


CASES = list(cases())


@pytest.mark.parametrize(("cls", "base", "changes"), CASES, ids=lambda it: getattr(it, "__name__", None))
def test_without_its_declarations_no_certificate_is_better(cls, base, changes, monkeypatch, tmp_path):
    names = declared(cls, base)
    whole = certificate(changes, tmp_path)
    for some in (*((name,) for name in names), names):
        with monkeypatch.context() as stripped:
            for name in some:
                stripped.setattr(cls, name, default(base, name))
            assert not better(certificate(changes, tmp_path), whole), some


def test_the_cases_strip_every_family_that_declares_something():
    """Among all of them are the declarations that once were best where nothing was said."""
    seen = {(base, name) for cls, base, _ in CASES for name in declared(cls, base)}
    assert {(Protocol, "shows_updates"), (Protocol, "covers"), (Protocol, "known"), (Protocol, "sums_whoever_comes"),
            (Compression, "exposes"), (Compression, "subsamples"), (ClientAlgorithm, "descends"),
            (Rule, "sends_changes"), (Policy, "family"), (Accountant, "covers"),
            (Failure, "never"), (Learning, "counts_change"), (Learning, "steepness"),
            (Partition, "leaves_nobody_out")} <= seen  # fmt: skip
