"""Planted mistakes, each with the scenario in which probes have to find it: rules of this program that are wrong, or
plugins that say what is not so. Nothing here asks for what a rule says; the machines measure.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from simfl.agents.aggregation import pipeline
from simfl.cli.validate_plugins import CENTRAL, FAILING, FEDAVG, FEDBUFF, LOCAL, scene
from simfl.clients.local_training import PlainSgd
from simfl.compression.base import COMPRESSIONS, Compression
from simfl.compression.quantise import Quantise, Sign
from simfl.compression.sparsification import RandomK, TopK
from simfl.core.errors import PluginError
from simfl.learning import learner
from simfl.learning.data.base import DATA
from simfl.learning.partitions.base import PARTITIONS
from simfl.learning.work import largest_move
from simfl.papers.oblivious.oblivious_noise import Oblivious
from simfl.papers.privacyfl import output_perturbation
from simfl.privacy.certify import chain, maps
from simfl.privacy.dp import losses
from simfl.privacy.dp.mechanisms import discrete_gaussian, discrete_laplace, gaussian, laplace, skellam, staircase
from simfl.privacy.dp.stages import (
    central_gaussian,
    discrete_noise,
    local_noise,
)
from simfl.privacy.dp.stages import discrete_laplace as discrete_laplace_stage
from simfl.privacy.stage import STAGES, Members, Stage
from simfl.probes import simulate as simulate_module
from simfl.probes.declarations import parse, refuted_codes, refuted_masks, refuted_rows
from simfl.probes.signal import refutations, repeated_noise
from simfl.secagg.base import PROTOCOLS, Plain
from simfl.secagg.masked_protocol import MaskedProtocol
from simfl.selection.base import POLICIES
from simfl.selection.guarded import GuardedSelection
from simfl.selection.partition import BatchPartitionSelection
from simfl.selection.theory import expected_cardinality, families
from simfl.training.base import RULES
from simfl.training.fedavg import FedAvg
from tests.probes.sample_moves import CLIENTS, HELD, LEARNING, TRAINING, InOrder, OneApart, refuted_samples

PLANTED: list[tuple[Any, str, type]] = []


def plant(registry, name):
    """Registers a plugin, for as long as :func:`found` looks: other tests go through the registries."""

    def register(cls):
        registry(name)(cls)
        PLANTED.append((registry, name, registry._plugins.pop(name)))
        return cls

    return register


# -- plugins that say what is not so --------------------------------------------------------------------


@plant(STAGES, "times_100")
@dataclass(frozen=True)
class Times(Stage):
    """Says nothing of what it does."""

    def client(self, vectors, jobs, state, streams):
        return (vectors * np.float32(100)).astype(np.float32)


@plant(STAGES, "times_3_as_1")
@dataclass(frozen=True)
class TimesThree(Stage):
    """Says less than it does."""

    maps = (maps.Scale(1.0),)

    def client(self, vectors, jobs, state, streams):
        return (vectors * np.float32(3)).astype(np.float32)


@plant(STAGES, "times_3")
@dataclass(frozen=True)
class HonestTimes(TimesThree):
    """Says what it does."""

    maps = (maps.Scale(3.0),)


@plant(STAGES, "central_of_longer")
@dataclass(frozen=True)
class Longer(central_gaussian.CentralGaussian):
    """Changes the clients' part and gives no maps of it."""

    def client(self, vectors, jobs, state, streams):
        return (3 * super().client(vectors, jobs, state, streams)).astype(np.float32)


@plant(STAGES, "bare_central")
@dataclass(frozen=True)
class BareCentral(central_gaussian.CentralGaussian):
    """Noise without a clip of its own."""

    maps = ()

    def client(self, vectors, jobs, state, streams):
        return vectors


@plant(STAGES, "turning")
@dataclass(frozen=True)
class Turning(Stage):
    """Moves a client's weight in its own way, and says that it scales all alike."""

    maps = (maps.Scale(1.0),)

    def client(self, vectors, jobs, state, streams):
        factor = np.array([0.25 if job.client % 2 else 1.0 for job in jobs], dtype=np.float32)
        return vectors * factor[:, None]


@plant(STAGES, "secret_noise")
@dataclass(frozen=True)
class SecretNoise(local_noise.LocalGaussian):
    """Says that it adds noise and adds none."""

    maps, facts, loss = (vars(local_noise.LocalGaussian)[name] for name in ("maps", "facts", "loss"))

    def client(self, vectors, jobs, state, streams):
        return maps.clip_norms(vectors, self.clip_norm)


@plant(RULES, "roots")
@dataclass(frozen=True, kw_only=True)
class Roots(FedAvg):
    """Weighs by the square root of samples."""

    def weights(self, examples, staleness):
        return np.sqrt(examples) * 10


@plant(RULES, "first_only")
@dataclass(frozen=True, kw_only=True)
class FirstOnly(FedAvg):
    """Sends a client's update many times as long."""

    sends_changes = True

    def contributions(self, deltas, downloaded, model):
        longer = deltas.copy()
        longer[0] *= 5
        return longer


@plant(PROTOCOLS, "bare")
@dataclass(frozen=True)
class Bare(Plain):
    """Says that only sums are seen, and masks nothing."""

    shows_updates = False
    covers = frozenset({"update", "samples"})


@plant(POLICIES, "in_turn")
@dataclass(frozen=True)
class InTurn:
    """The next k clients; it names the family of everybody."""

    k: int
    unit_size = 1
    example = {"k": 4}

    def select(self, view, k, rng):
        n = len(view.available)
        order = (np.arange(n) + view.round * 3) % n
        free = order[view.available[order]][:k]
        return np.sort(free).astype(np.int32).reshape(-1, 1) if len(free) == k else np.empty((0, 1), np.int32)

    def family(self, clients):
        return families.AllAvailable(clients)


@plant(POLICIES, "pairs_in_turn")
@dataclass(frozen=True)
class PairsInTurn(InTurn):
    """The same; it names fixed pairs."""

    def family(self, clients):
        return families.DisjointUnits(clients, 4, 2)


@plant(COMPRESSIONS, "largest_half")
@dataclass(frozen=True)
class LargestHalf(Compression):
    """The larger half of the coordinates; it says nothing."""

    def size_bytes(self, dimension):
        return 4 * dimension

    def client(self, vectors, jobs, streams):
        cut = np.median(np.abs(vectors), axis=1, keepdims=True)
        return np.where(np.abs(vectors) >= cut, vectors, 0).astype(np.float32)


plant(DATA, "one_apart")(OneApart)
plant(PARTITIONS, "in_order")(InOrder)


# -- what is wrong --------------------------------------------------------------------------------------


def patched(*changes):
    """What plants changes of (owner, attribute, value)."""
    stack = ExitStack()
    for owner, attribute, value in changes:
        stack.enter_context(mock.patch.object(owner, attribute, value))
    return stack


def scaled(function, factor):
    """A function whose result is so many times as large."""
    return lambda *args, **fields: function(*args, **fields) * factor


def halved_mu(*args, original=central_gaussian.gaussian_loss, **fields):
    loss = original(*args, **fields)
    return replace(loss, mu=loss.mu / 2)


def less_bound(cls, field, factor=0.5):
    original = cls.bound

    def bound(self, before, facts):
        found = original(self, before, facts)
        return found._replace(**{field: getattr(found, field) * factor})

    return cls, "bound", bound


def client_of(cls, change):
    original = cls.client

    def client(self, vectors, jobs, state, streams):
        return change(original(self, vectors, jobs, state, streams), vectors, self)

    return cls, "client", client


def half_noise(sent, vectors, stage):
    clean = maps.clip_norms(vectors, stage.clip_norm, 1 if "laplace" in stage.name else 2)
    return (clean + (sent - clean) / 2).astype(np.float32)


def first_coordinate_bare(sent, vectors, stage):
    sent[:, 0] = maps.clip_norms(vectors, stage.clip_norm)[:, 0]
    return sent


def unclipped(vectors, most, order=2):
    return vectors


def clipped_twice_as_long(vectors, most, order=2, original=maps.clip_norms):
    return original(vectors, 2 * np.asarray(most), order)


def clipped_by_largest(vectors, most, order=2):
    return np.clip(vectors, -np.min(most), np.min(most)).astype(np.float32)


def server_of(cls, change):
    original = cls.server

    def server(self, vector, members, state, streams):
        released, after = original(self, vector, members, state, streams)
        return change(released, vector).astype(np.float32), after

    return cls, "server", server


def stale_noise(cls):
    original = cls.server

    def server(self, vector, members, state, streams):
        return original(self, vector, members._replace(number=0), state, streams)

    return cls, "server", server


def first_round_only(history, loss, original=losses.loss_factors):
    factors = original(history, loss).tolil()
    factors[1:] = 0
    return factors.tocsr()


def untouched_row(rule, row, shares, divisor, samples):
    return row


def moved_aggregate(change):
    original = MaskedProtocol.mean

    def mean(self, *args, **fields):
        return change(original(self, *args, **fields))

    return MaskedProtocol, "mean", mean


def no_alike(stages, streams):
    return tuple(streams for _ in stages)


def property_times(cls, name, factor):
    original = vars(cls)[name].fget
    return cls, name, property(lambda self: original(self) * factor)


SECAGG = {"name": "secagg"}
COARSE = {"name": "secagg", "clip": 4.0, "scale": 1.0}
RANDOM = {"name": "random", "k": 3}
MANY = FEDAVG | {"rounds": 6}
LAPLACE, STAIRCASE, SHARES = {"name": "local_laplace"}, {"name": "local_staircase"}, {"name": "laplace_shares"}
ADAPTIVE, TREE = {"name": "adaptive_gaussian", "bit_std": 4.0}, {"name": "tree_gaussian", "noise_multiplier": 3.0}
DISCRETE, SKELLAM = {"name": "discrete_gaussian", "noise_multiplier": 2.0}, {"name": "skellam", "noise_multiplier": 2.0}
POLYA, XNOISE = {"name": "discrete_laplace"}, {"name": "xnoise", "sharers": 4, "noise_multiplier": 2.0}
BY_SAMPLES = {"name": "fedavg", "rounds": 2, "weighting": "samples"}
HEAVY = CENTRAL | {"max_weight": 4.0}
LOSING = {"stages": [LOCAL], "secagg": "plain", "training": FEDAVG | {"rounds": 8, "on_failure": "abort"},
          "devices": {"failure": {"name": "bernoulli", "probability": 0.25}}}  # fmt: skip
ROWS = {"clients": 8, "training": FEDAVG | {"rounds": 30}}
HALF, BATCH = {"name": "half_partition", "k": 4, "T": 2}, {"name": "batch_partition", "k": 4, "T": 2}


def noise(**changes):
    return lambda: refutations(parse(scene(**changes)), 120)


def draws(**changes):
    return lambda: repeated_noise(simulate_module.simulate(parse(scene(**changes))))


def rows(**changes):
    return lambda: refuted_rows(parse(scene(**ROWS | changes)))


def masks(protocol):
    return lambda: refuted_masks(simulate_module.simulate(parse(scene(secagg=protocol))))


def codes(name, **fields):
    def judge():
        scenario = parse(scene(compression={"name": name, **fields}, secagg="plain"))
        return refuted_codes(scenario)

    return judge


def samples(**changes):
    base = {"clients": CLIENTS, "seed": 1, "selection": "all", "training": TRAINING, "learning": LEARNING}
    return lambda: refuted_samples(parse(base | {"privacy": {"accountants": []}} | changes))


OUTPUT = {"name": "output_perturbation", "epsilon": 1.0, "samples": HELD, "noise_scale": "calibrated", "adds": "whole"}
OBLIVIOUS = {"name": "oblivious", "epsilon": 1.0, "samples": HELD, "noise_scale": "calibrated", "execute": "cost_only"}
OF_SAMPLES = {
    "of a stage": {"privacy": {"stages": [OUTPUT], "accountants": []}},
    "of a stage with shares": {"privacy": {"stages": [OUTPUT | {"adds": "share"}], "accountants": []},
                               "secagg": {"name": "secagg", "clip": 1e3}},
    "of a stage with Gaussian noise": {"privacy": {"stages": [OUTPUT | {"mechanism": "gaussian"}], "accountants": []}},
    "of a protocol": {"secagg": OBLIVIOUS},
    "of a protocol that is told many samples": {"secagg": OBLIVIOUS | {"samples": 100_000}},
    "of two passes in larger batches": {
        "secagg": OBLIVIOUS, "training": TRAINING | {"local_epochs": 2, "batch_size": 8, "learning_rate": 0.2}},
}  # fmt: skip

MUTANTS = {
    # single samples
    "epsilon is of the samples that a key states (T7)": (
        [(Oblivious, "_epsilon", lambda self, parties, fine, moved, original=Oblivious._epsilon: original(
            self, parties, fine, self.sensitivity()))],
        samples(**OF_SAMPLES["of a protocol that is told many samples"])),
    "epsilon is of the samples that a stage's key states (T7)": (
        [(output_perturbation, "of_each_sample", lambda members, penalty: np.full(
            members.n_summed, 2 / HELD) * members.weights)],
        samples(**OF_SAMPLES["of a stage"])),
    "SGD is said to minimise (T10)": ([(PlainSgd, "minimises", True)], samples(**OF_SAMPLES["of a stage"])),
    "SGD is said to minimise, beside oblivious noise (T10)": (
        [(PlainSgd, "minimises", True)], samples(**OF_SAMPLES["of a protocol"])),
    "a sample is in one step of many (T10)": (
        [(learner, "largest_move", scaled(largest_move, 1 / HELD))], samples(**OF_SAMPLES["of a stage"])),
    # maps: a factor is dropped
    "a clip in L2 counts half": ([less_bound(maps.Clip, "l2")], noise(stages=[CENTRAL])),
    "a clip in L2 counts half, of local noise": ([less_bound(maps.Clip, "l2")], noise(stages=[LOCAL], secagg="plain")),
    "a bit beside an update is not counted where noise covers both": (
        [(central_gaussian.ClippedWithBit, "bound", lambda self, before, facts: maps.Bound(
            l2=facts.get("sensitivity", 1.0)))], noise(stages=[ADAPTIVE, LOCAL], secagg="plain")),
    "a clip in L1 counts a quarter": (
        [less_bound(maps.Clip, "l1", 0.25)], noise(stages=[LAPLACE], secagg="plain")),
    "a clip of a tree counts half": ([less_bound(maps.Clip, "l2")], noise(stages=[TREE])),
    "a link that says nothing keeps bounds": (
        [(maps.Map, "bound", lambda self, before, facts: before), (maps.Map, "per_client", True)],
        noise(stages=["clipping", {"name": "times_100"}, {"name": "bare_central", "noise_multiplier": 3.0}])),
    "a stage that says nothing does nothing (T2)": (
        [(Stage, "maps", property(lambda self: ())), (Stage, "links", property(lambda self: self.maps))],
        noise(stages=[CENTRAL, {"name": "times_100"}])),
    "a stage that changes the clients' part keeps its maps": (
        [(Longer, "maps", central_gaussian.CentralGaussian.maps),
         (Longer, "facts", central_gaussian.CentralGaussian.facts),
         (Longer, "loss", central_gaussian.CentralGaussian.loss)],
        noise(stages=[{"name": "central_of_longer", "noise_multiplier": 3.0}])),
    "a stage after the clip says that it scales by 1": ([], noise(stages=[CENTRAL, {"name": "times_3_as_1"}])),
    "a factor of 3 is dropped": (
        [(maps.Scale, "bound", lambda self, before, facts: before)], noise(stages=[CENTRAL, {"name": "times_3"}])),
    "bounds are those before the stages after the clip": (
        [(chain, "bound_at", lambda stages, i, facts, coded, original=chain.bound_at: original(
            stages[: i + 1], i, facts, coded))], noise(stages=[CENTRAL, {"name": "times_3"}])),
    "a stage that weighs clients says that it does not": ([], noise(stages=[{"name": "turning"}])),
    # losses
    "noise is said to leave nothing": (
        [(central_gaussian, "gaussian_loss", lambda *args, original=central_gaussian.gaussian_loss, **fields: replace(
            original(*args, **fields), mu=0 * original(*args, **fields).mu))], noise(stages=[CENTRAL])),
    "Gaussian losses are halved": (
        [(central_gaussian, "gaussian_loss", halved_mu)], noise(stages=[CENTRAL])),
    "local Gaussian losses are halved": (
        [(local_noise, "gaussian_loss", halved_mu)], noise(stages=[LOCAL], secagg="plain")),
    "the loss of adaptive clipping is halved": (
        [(central_gaussian, "gaussian_loss", halved_mu)], noise(stages=[ADAPTIVE])),
    "the loss of a tree is halved": ([(central_gaussian, "gaussian_loss", halved_mu)], noise(stages=[TREE])),
    "losses forget samples": (
        [(losses, "with_samples", lambda P, samples: P)], noise(stages=[HEAVY], training=BY_SAMPLES)),
    "losses of the first round alone": (
        [(losses, "loss_factors", first_round_only)], noise(stages=[LOCAL], secagg="plain", training=MANY)),
    "epsilon is that of half a loss": (
        [(losses, "gaussian", SimpleNamespace(epsilon=lambda mu, delta: gaussian.epsilon(np.asarray(mu) / 2, delta)))],
        noise(stages=[CENTRAL])),
    "accountants see what is stated of weights (T1)": (
        [(pipeline, "used_row", untouched_row)],
        noise(stages=[CENTRAL], training={"name": "roots", "rounds": 2, "weighting": "equal"})),
    "unsummed updates are not counted (T8)": (
        [(losses, "_with_unsummed", lambda loss, facts, history: loss)], noise(**LOSING)),
    "unsummed updates are counted once": (
        [(losses, "loss_factors", lambda history, loss: losses.noised_weights(history, loss))], noise(**LOSING)),
    "pure epsilons of Laplace shares are a fifth": (
        [(local_noise.laplace, "pure_epsilon", scaled(laplace.pure_epsilon, 0.2))], noise(stages=[SHARES])),
    "pure epsilons of discrete Laplace noise are a fifth": (
        [(discrete_laplace_stage.discrete_laplace, "pure_epsilon", scaled(discrete_laplace.pure_epsilon, 0.2))],
        noise(stages=[POLYA], secagg=SECAGG)),
    "divergences of Skellam noise are a quarter": (
        [(skellam, "rdp", scaled(skellam.rdp, 0.25))], noise(stages=[SKELLAM], secagg=SECAGG)),
    "divergences of discrete Gaussian noise are a quarter": (
        [(discrete_gaussian, "rdp", scaled(discrete_gaussian.rdp, 0.25))], noise(stages=[DISCRETE], secagg=SECAGG)),
    "all shares are said to be there": (
        [(Members, "honest", lambda self, colluders: 8)],
        noise(stages=[SHARES | {"sharers": 8, "epsilon": 0.5}], selection={"name": "random", "k": 2})),
    "twice the shares of Skellam noise are said to be there": (
        [(Members, "honest", lambda self, colluders: 4 * self.n_summed)], noise(stages=[SKELLAM], secagg=SECAGG)),
    # stages that do something else
    "no noise is added": (
        [server_of(central_gaussian.CentralGaussian, lambda released, vector: vector)], noise(stages=[CENTRAL])),
    "half of the noise is added": (
        [server_of(central_gaussian.CentralGaussian, lambda released, vector: (released + vector) / 2 + vector / 2
                   - (released - vector) * 0)], noise(stages=[CENTRAL])),
    "a coordinate has no noise": (
        [server_of(central_gaussian.CentralGaussian, lambda released, vector: np.append(vector[:1], released[1:]))],
        noise(stages=[CENTRAL])),
    "noise of all rounds is one": (
        [stale_noise(central_gaussian.CentralGaussian)],
        noise(stages=[CENTRAL], selection=RANDOM, training=MANY)),
    "noise is divided twice": (
        [(central_gaussian.gaussian, "sample",
          lambda rng, std, size, original=gaussian.sample: original(rng, std / 4, size))], noise(stages=[CENTRAL])),
    "nothing is clipped": ([(maps, "clip_norms", unclipped)], noise(stages=[CENTRAL])),
    "clips are twice as long": ([(maps, "clip_norms", clipped_twice_as_long)], noise(stages=[CENTRAL])),
    "the largest coordinate is clipped": (
        [(maps, "clip_norms", clipped_by_largest)], noise(stages=[CENTRAL])),
    "local noise without a clip": (
        [(maps, "clip_norms", unclipped)], noise(stages=[LOCAL], secagg="plain")),
    "Laplace noise of an update clipped in L2": (
        [(maps, "clip_norms", lambda vectors, most, order, original=maps.clip_norms: original(
            vectors, 3 * most, 2))], noise(stages=[LAPLACE], secagg="plain")),
    "half of the local noise": (
        [client_of(local_noise.LocalGaussian, half_noise)], noise(stages=[LOCAL], secagg="plain")),
    "a coordinate without local noise": (
        [client_of(local_noise.LocalGaussian, first_coordinate_bare)], noise(stages=[LOCAL], secagg="plain")),
    "a third of the Laplace noise": (
        [(local_noise.laplace, "sample",
          lambda rng, scale, size, original=laplace.sample: original(rng, scale / 3, size))],
        noise(stages=[LAPLACE], secagg="plain")),
    "a twentieth of the staircase noise": (
        [(local_noise.staircase, "sample",
          lambda *args, original=staircase.sample: original(*args) / 20)], noise(stages=[STAIRCASE], secagg="plain")),
    "coordinates of staircase noise are not clipped": (
        [(local_noise.np, "clip", lambda values, low, high: values)],
        noise(stages=[STAIRCASE], secagg="plain")),
    "a tenth of a Laplace share": (
        [(local_noise.laplace, "share",
          lambda rng, scale, shape, size, original=laplace.share: original(rng, scale / 10, shape, size))],
        noise(stages=[SHARES])),
    "a third of the Skellam noise": (
        [(skellam, "sample", lambda rng, variance, size, original=skellam.sample: original(rng, variance / 9, size))],
        noise(stages=[SKELLAM], secagg=SECAGG)),
    "a third of the discrete Gaussian noise": (
        [(discrete_gaussian, "sample",
          lambda rng, variance, size, original=discrete_gaussian.sample: original(rng, variance / 9, size))],
        noise(stages=[DISCRETE], secagg=SECAGG)),
    "a tenth of the discrete Laplace noise": (
        [(discrete_laplace_stage.discrete_laplace, "share",
          lambda rng, scale, shape, size, original=discrete_laplace.share: original(rng, scale / 10, shape, size))],
        noise(stages=[POLYA], secagg=SECAGG)),
    "xnoise takes too much off": (
        [(discrete_noise.XNoise, "surplus",
          lambda self, members, to, original=discrete_noise.XNoise.surplus: 0 * original(self, members, to)),
         (skellam, "sample",
          lambda rng, variance, size, original=skellam.sample: original(rng, variance / 9, size))],
        noise(stages=[XNOISE], secagg=SECAGG, selection={"name": "random", "k": 4})),
    "whole numbers of twice the norm": (
        [(discrete_noise, "clip_norms", clipped_twice_as_long), (discrete_noise, "round_within_l2",
          lambda row, most, rng: np.rint(row).astype(np.int64))], noise(stages=[DISCRETE], secagg=SECAGG)),
    "whole numbers without a clip": (
        [(discrete_laplace_stage, "clip_norms", unclipped), (discrete_laplace_stage, "round_within_l1",
          lambda row, most, rng: np.rint(row).astype(np.int64))], noise(stages=[POLYA], secagg=SECAGG)),
    "adaptive clipping adds a quarter of its noise": (
        [property_times(central_gaussian.AdaptiveGaussian, "update_multiplier", 0.25)], noise(stages=[ADAPTIVE])),
    "a tree takes all noise off": (
        [server_of(central_gaussian.TreeGaussian, lambda released, vector: vector)], noise(stages=[TREE])),
    "a stage says that it adds noise and adds none": (
        [], noise(stages=[{"name": "secret_noise"}], secagg="plain")),
    # addresses
    "two stages draw the same noise (T9)": (
        [(simulate_module, "stage_streams", no_alike)], draws(stages=[LAPLACE, LAPLACE], secagg="plain")),
    "all clients draw one noise": (
        [(local_noise, "noise_stream", lambda streams, stage, job: streams(f"dp/{stage}", 0)),],
        draws(stages=[LAPLACE], secagg="plain")),
    "a client draws one noise for all rounds": (
        [(local_noise, "noise_stream", lambda streams, stage, job: streams(f"dp/{stage}", job.client)),],
        draws(stages=[LOCAL], secagg="plain")),
    "all clients of a round draw one noise": (
        [(local_noise, "noise_stream", lambda streams, stage, job: streams(f"dp/{stage}", job.selection)),],
        draws(stages=[STAIRCASE], secagg="plain")),
    "shares of noise are one share": (
        [(local_noise, "noise_stream", lambda streams, stage, job: streams(f"dp/{stage}", 7)),],
        draws(stages=[SHARES])),
    # sums
    "a protocol rounds and does not say so": (
        [moved_aggregate(lambda total: total._replace(step=0.0))], noise(stages=[], secagg=COARSE)),
    "a protocol counts the first client twice": (
        [moved_aggregate(lambda total: total._replace(shares=total.shares * np.append(2.0, np.ones(
            len(total.shares) - 1))))], noise(stages=[], secagg=SECAGG)),
    "a protocol's sum is larger than it says": (
        [moved_aggregate(lambda total: total._replace(vector=total.vector * np.float32(1.5)))],
        noise(stages=[], secagg=SECAGG)),
    "a rule makes the first client's update longer": (
        [], noise(stages=[], training={"name": "first_only", "rounds": 2, "weighting": "equal"})),
    "weights of samples are squared, and not said to be": (
        [(FedAvg, "weights", lambda self, examples, staleness: examples.astype(float) ** 2),
         (pipeline, "used_row", untouched_row)], noise(stages=[], training=BY_SAMPLES)),
    "stale updates count in full, and their row says less": (
        [(RULES["fedbuff"], "weights", lambda self, examples, staleness: np.ones(len(examples))),
         (pipeline, "used_row", untouched_row)],
        noise(stages=[], training=FEDBUFF | {"rounds": 6, "concurrency": 3, "staleness": "polynomial"})),
    # protocols, selections, compressions
    "a protocol masks nothing (T3)": (
        [], masks("bare")),
    "a trusted party is not said to be assumed": (
        [(PROTOCOLS["ideal"], "assumes", "")], masks("ideal")),
    "plain says that it hides": (
        [(Plain, "shows_updates", False), (Plain, "covers", frozenset({"update", "samples"}))], masks("plain")),
    "a policy names a family that is not its own (T4)": ([], rows(selection={"name": "in_turn", "k": 4})),
    "families are not asked (T4)": (
        [("simfl.probes.declarations.keeps_to_family", None, lambda setting, P: True)],
        rows(selection={"name": "in_turn", "k": 4})),
    "a policy names units that it does not keep": ([], rows(selection={"name": "pairs_in_turn", "k": 4})),
    "batches are said to hide twice as many": (
        [(families.DisjointUnits, "guarantee", lambda self, present: (2 * self.unit, 2 * self.unit))],
        rows(selection=BATCH)),
    "half-batches are said to hide whole ones": (
        [(families.NeighbourPairs, "guarantee", lambda self, present: (self.unit, self.unit))], rows(selection=HALF)),
    "half-batches are said to hide more": (
        [(families.NeighbourPairs, "guarantee", lambda self, present: (1, 2 * self.unit))], rows(selection=HALF)),
    "everybody is said to stay": (
        [(families.AllAvailable, "guarantee", lambda self, present: (self.clients, self.clients)),
         (families.AllAvailable, "contains", lambda self, clients, lost: True),
         (expected_cardinality, "_never_loses_anybody", lambda setting: True)],
        rows(selection="all", devices=FAILING)),
    "random sets are said to hide": (
        [(families.Coins, "guarantee", lambda self, present: (3, 3)),
         (families.DisjointUnits, "guarantee", lambda self, present: (3, 3))],
        rows(selection={"name": "random", "k": 4})),
    "units may be broken up": (
        [(FedAvg, "keeps_units", True), ("simfl.probes.declarations.keeps_to_family", None, lambda setting, P: True)],
        rows(selection=BATCH, training=FEDAVG | {"rounds": 30, "on_failure": "partial"}, devices=FAILING)),
    "a guard lets everything pass": (
        [(GuardedSelection, "admits", lambda self, view, clients: True)],
        rows(selection={"name": "guarded", "T": 2, "inner": {"name": "random", "k": 4}}, devices=FAILING,
             training=FEDAVG | {"rounds": 30, "on_failure": "partial"})),
    "batches overlap": (
        [(BatchPartitionSelection, "select", lambda self, view, k, rng: np.sort(
            rng.permutation(8)[:4]).astype(np.int32).reshape(-1, 2))], rows(selection=BATCH)),
    "a code of largest coordinates tells nothing (T3)": (
        [(TopK, "exposes", lambda self, setting: ())], codes("top_k", share=0.3)),
    "a code that says nothing tells nothing (T3)": (
        [(LargestHalf, "exposes", lambda self, setting: ())], codes("largest_half")),
    "levels tell nothing": ([(Quantise, "exposes", lambda self, setting: ())], codes("quantise")),
    "signs tell nothing": ([(Sign, "exposes", lambda self, setting: ())], codes("sign")),
    "random coordinates stay": ([(RandomK, "subsamples", False)], codes("random_k", share=0.3)),
    "compression comes after the clip": (
        [(pipeline, "compression_place", lambda stages: len(stages)),
         (chain, "compression_place", lambda stages: 0)],
        noise(stages=[CENTRAL], compression={"name": "random_k", "share": 0.4}, training=MANY)),
}  # fmt: skip


@contextmanager
def planted():
    """The plugins of this file are registered."""
    with ExitStack() as stack:
        for registry, plugin, cls in PLANTED:
            registry._plugins[plugin] = cls
            stack.callback(
                lambda registry=registry, plugin=plugin: registry._plugins.pop(plugin)
            )  # and leaves those that are loaded meanwhile
        yield


def found(name):
    """What probes find where the mistake is planted."""
    changes, judge = MUTANTS[name]
    with planted(), ExitStack() as stack:
        for owner, attribute, value in changes:
            place = mock.patch(owner, value) if isinstance(owner, str) else mock.patch.object(owner, attribute, value)
            stack.enter_context(place)
        with np.errstate(all="ignore"):
            try:
                return judge()
            except PluginError as error:  # a run looks at what plugins promise
                return [error]
