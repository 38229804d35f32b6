"""A promise speaks of the class that makes it: whoever changes anything of that has to make it anew, and what is
promised is looked at while a run goes.
"""

from dataclasses import dataclass, fields
from inspect import getattr_static, isfunction

import pytest

from simfl.agents.servers import SERVERS
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.said_types import as_written

NOBODYS = {("client", "minimises"), ("personal", "minimises"), ("personal", "repeats"), ("accountant", "covers")}
"""What no plugin of simfl itself promises."""
assert SERVERS is FAMILIES["server"]
PROMISES = [(family, name) for family, registry in FAMILIES.items() for name in registry.promises]


def derived(cls, members):
    """A dataclass that changes so much of a class."""
    return dataclass(frozen=cls.__dataclass_params__.frozen, eq=cls.__dataclass_params__.eq)(
        type("Derived", (cls,), {"__doc__": "Another.", "__module__": __name__, **members})
    )


def registered(registry, cls):
    """Registered as any plugin is, and then no more."""
    registry("derived")(cls)
    return registry._plugins.pop("derived")


def making(family, promise):
    """simfl's own plugins that say something else of it than what counts where nothing is said."""
    registry = FAMILIES[family]
    worst = getattr_static(registry.protocol, promise)
    for cls in registry.values():
        said = getattr_static(cls, promise)
        if cls.__module__.startswith("simfl.") and promise not in {each.name for each in fields(cls)} and said != worst:
            yield cls


def written(said):
    """A promise as its class defines it, without the look at what it gives."""
    return as_written(said.fget if isinstance(said, property) else said)


def behaviour(cls, protocol, promises):
    """A method of the class, or one that it could have, that is no promise and does something."""
    names = {name for each in cls.__mro__ for name, it in vars(each).items() if isfunction(it)}
    return min(name for name in names - {*promises, "check", "resolve", "cautions"} if not name.startswith("_"))


@pytest.mark.parametrize(("family", "promise"), PROMISES)
def test_a_promise_is_not_inherited_by_whoever_changes_what_it_speaks_of(family, promise):
    registry = FAMILIES[family]
    worst, tried = getattr_static(registry.protocol, promise), 0
    for cls in making(family, promise):
        tried += 1
        name = behaviour(cls, registry.protocol, registry.promises)
        changed = registered(registry, derived(cls, {name: lambda self, *given, **named: None}))
        assert getattr_static(changed, promise) is worst and promise in changed.unsaid, (cls, name)
        mixed = registered(registry, type("Mixed", (type("Mixin", (), {name: 1}), derived(cls, {})), {"__doc__": "B."}))
        assert getattr_static(mixed, promise) is worst, cls
        anew = registered(registry, derived(cls, {name: 1, promise: getattr_static(cls, promise)}))
        assert written(getattr_static(anew, promise)) == written(getattr_static(cls, promise)), cls
        same = registered(registry, derived(cls, {"check": lambda self, setting: []}))
        assert getattr_static(same, promise) is getattr_static(cls, promise) and promise not in same.unsaid, cls
    assert tried or (family, promise) in NOBODYS


SUMS = """
@PROTOCOLS("adds")
@dataclass(frozen=True)
class Adds(Protocol):
    \"\"\"Adds whatever has come.\"\"\"
    shows_updates = False
    covers = frozenset({"update", "samples"})
    def recover(self, cohort, uploaded, prepared, streams):
        return SessionResult(np.asarray(uploaded.all(axis=1)))
        yield
    def add(self, result, updates, streams):
        weights = updates.weights * FACTORS[: len(updates.weights)]
        vector = updates.combine(updates.vectors, weights, updates.divisor(updates.weights), updates.mask)
        return Aggregate(vector, updates.clients, updates.row)
"""


def test_a_protocol_that_adds_something_else_than_the_sum_ends_the_run(play):
    done, _ = play("FACTORS = np.arange(1, 7)\n" + SUMS, "secagg=adds")
    assert done.exit_code == 1 and "off the weighted sum" in done.output
    done, summary = play("FACTORS = np.full(6, 2)\n" + SUMS, "secagg=adds")
    assert done.exit_code == 0 and summary["privacy_strong"] > 1, "any multiple of the sum tells what the sum tells"


def test_an_aggregate_that_is_no_sum_ends_the_run_or_needs_each_update(play):
    own = """
@AGGREGATES("first")
@dataclass(frozen=True)
class First(Mean):
    \"\"\"That of one client.\"\"\"
    SAYS
    def combine(self, deltas, weights, normaliser, mask=None):
        return deltas[0]
"""
    done, _ = play(own.replace("SAYS", "sum_only = True"), "training.aggregate=first")
    assert done.exit_code == 1 and "no fixed multiple of the weighted sum" in done.output
    done, _ = play(own.replace("SAYS", ""), "training.aggregate=first")
    assert done.exit_code == 2 and "first needs single updates" in done.output


RULE = """
@RULES("other")
@dataclass(frozen=True, kw_only=True)
class Other(FedAvg):
    \"\"\"Sums something else.\"\"\"
    SAYS
    def contributions(self, deltas, downloaded, model):
        return (deltas * (1 + np.abs(model).sum() + deltas.sum())).astype(np.float32)
"""
CENTRAL = "privacy.stages=[central_gaussian]"


def test_a_rule_that_sums_something_else_has_no_guarantee_and_no_epsilon(play):
    _, summary = play(RULE.replace("SAYS", ""), "training.name=other", CENTRAL)
    assert summary["privacy_strong"] == summary["guarantee_strong"] == 1 and summary["epsilon_max"] is None
    assert play(RULE.replace("SAYS", ""), "training.name=other", command="theory")[1]["guarantee"]["strong"] == 1
    done, _ = play(RULE.replace("SAYS", "sends_changes = True"), "training.name=other")
    assert done.exit_code == 1 and "sums something else than clients' changes" in done.output
    perturbed = "privacy.stages=[{name: output_perturbation, epsilon: 1, samples: 30}]"
    done, _ = play(RULE.replace("SAYS", ""), "training.name=other", perturbed, "training.weight_decay=1")
    assert done.exit_code == 2 and "does not say that it sums what clients train" in done.output


def test_a_rule_that_divides_by_another_number_than_it_says_ends_the_run(play):
    own = """
@RULES("counts")
@dataclass(frozen=True, kw_only=True)
class Counts(FedAvg):
    \"\"\"Divides by how many came.\"\"\"
    def divisor(self, weights, examples):
        return float((weights > 0).sum())
"""
    sampled = "selection={name: bernoulli, k: 3}"
    done, _ = play(own, "training.name=counts", "training.denominator=expected", sampled)
    assert done.exit_code == 1 and "says fixed_denominator = 3, and divides by" in done.output


MIXES = """
@STAGES("centred")
@dataclass(frozen=True)
class Centred(Stage):
    \"\"\"Takes the mean of all off each.\"\"\"
    SAYS
    def client(self, vectors, jobs, state, streams):
        return vectors - 2 * vectors.mean(axis=0)

@STAGES("longer")
@dataclass(frozen=True)
class Longer(Stage):
    \"\"\"Anything, of each by itself.\"\"\"
    maps = (PerClient(),)
    def client(self, vectors, jobs, state, streams):
        return 5 * vectors

@COMPRESSIONS("coupled")
@dataclass(frozen=True)
class Coupled(Compression):
    \"\"\"One scale for all.\"\"\"
    def size_bytes(self, dimension):
        return 4 * dimension
    def client(self, vectors, jobs, streams):
        return (vectors / (1 + np.abs(vectors).max())).astype(np.float32)
"""


def test_no_clip_bounds_what_other_clients_have_moved(play):
    noisy = "privacy.stages=[{name: STAGE}, {name: central_gaussian}]"
    done, _ = play(MIXES.replace("SAYS", ""), noisy.replace("STAGE", "centred"))
    assert done.exit_code == 2 and "say what it does (maps)" in done.output
    done, _ = play(MIXES.replace("SAYS", "maps = (PerClient(),)"), noisy.replace("STAGE", "centred"))
    assert done.exit_code == 1 and "says that it treats each update by itself" in done.output
    _, summary = play(MIXES.replace("SAYS", ""), noisy.replace("STAGE", "longer"))
    assert summary["epsilon_max"] > 0
    _, summary = play(MIXES.replace("SAYS", ""), "compression=coupled", "secagg=plain", CENTRAL)
    assert summary["epsilon_max"] is None
    local = "privacy.stages=[{name: local_gaussian}]"
    _, summary = play(MIXES.replace("SAYS", ""), "compression=coupled", "secagg=plain", local)
    assert summary["epsilon_max"] > 0, "what noise covers already is only processed"


def test_a_stage_that_sends_longer_updates_than_its_maps_say_ends_the_run(play):
    own = """
@STAGES("lies")
@dataclass(frozen=True)
class Lies(Stage):
    \"\"\"Says a clip.\"\"\"
    maps = (Clip(1e-6),)
    def client(self, vectors, jobs, state, streams):
        return vectors
"""
    done, _ = play(own, "privacy.stages=[lies, central_gaussian]")
    assert done.exit_code == 1 and "sends longer updates than it says (maps)" in done.output


def test_what_a_plugin_sets_of_itself_ends_the_run(play):
    own = """
@STAGES("sets")
@dataclass(frozen=True)
class Sets(Stage):
    \"\"\"Says a clip.\"\"\"
    maps = (Clip(1.0),)
    def resolve(self, setting):
        object.__setattr__(self, "client", lambda vectors, jobs, state, streams: 100 * vectors)
        return self
"""
    done, _ = play(own, "privacy.stages=[sets, central_gaussian]")
    assert done.exit_code == 1 and "sets 'client' of itself" in done.output


CLIENT = """
from simfl.clients.local_training import PlainSgd

@CLIENTS("own")
@dataclass(frozen=True)
class Own(PlainSgd):
    \"\"\"Sends something else.\"\"\"
    SAYS
    def begin(self, context):
        return LocalPass(context.download.model, proximal=PULL)
    def end(self, context, local_pass, delta, steps, rate):
        return LocalResult(Upload(np.float32(FACTOR) * delta))
"""
PERTURBED = "{name: output_perturbation, epsilon: 1, samples: 30, noise_scale: calibrated, adds: whole}"
OF_SAMPLES = (
    f"privacy.stages=[{PERTURBED}]",
    "training.weight_decay=1",
    "training.learning_rate=0.001",
    "secagg=plain",
)


@pytest.mark.parametrize(
    ("says", "pull", "factor", "ends"),
    [("", 0, 10, False), ("descends = True", 0, 10, True), ("descends = True", 1000.0, 1, True),
     ("descends = True", 0, 1, None), ("descends, proximal = True, 10.0", 10.0, 1, None)],
)  # fmt: skip
def test_a_client_that_sends_something_else_than_sgd_leaves_has_no_epsilon_of_samples(play, says, pull, factor, ends):
    own = CLIENT.replace("SAYS", says).replace("PULL", str(pull)).replace("FACTOR", str(factor))
    done, summary = play(own, "training.client=own", *OF_SAMPLES)
    if ends:
        assert done.exit_code == 1 and "says in `descends`" in done.output
    else:
        assert (summary["epsilon_model"] is None) == (ends is False)


def test_models_and_backends_say_what_epsilons_of_samples_ask_of_them(play):
    own = """
from simfl.learning.backends.choices import Sequential
from simfl.learning.models.dense import Logistic
from simfl.plugins.learning import BACKENDS, MODELS

@MODELS("hot")
@dataclass(frozen=True)
class Hot(Logistic):
    \"\"\"Another one.\"\"\"
    def build(self, shape, classes):
        return super().build(shape, classes)

@BACKENDS("own")
@dataclass(frozen=True)
class Own(Sequential):
    \"\"\"Another one.\"\"\"
    def build(self, task):
        return super().build(task)
"""
    assert play(own, *OF_SAMPLES)[1]["epsilon_model"] > 0
    assert play(own, *OF_SAMPLES, "learning.model=hot")[1]["epsilon_model"] is None
    assert play(own, *OF_SAMPLES, "learning.backend=own")[1]["epsilon_model"] is None


ALONE = """clients: 6
seed: 1
selection: all
training: {name: fedavg, rounds: 8, weighting: equal, batch_size: 50, on_failure: abort}
learning: {name: none, parameters: 10}
network: {name: star, latency_s: [0.1, 0.1, 0.1, 0.1, 0.1, 3]}
devices: {failure: {name: bernoulli, probability: [0, 0, 0, 0, 0, 0.4]}}
"""


def test_an_aborted_round_is_open_where_the_protocol_does_not_say_that_it_is_closed(play):
    own = "FACTORS = np.ones(6)\n" + SUMS
    assert play(own, "secagg=adds", base=ALONE)[1]["privacy_strong"] == 1
    assert play(own, "secagg=pairwise_ratchet", base=ALONE)[1]["privacy_strong"] > 1


def test_a_plugins_server_counts_messages_only_if_it_says_so(play):
    own = """
from simfl.plugins.servers import SERVERS, SynchronousServer

@SERVERS("own")
@dataclass(eq=False)
class Own(SynchronousServer):
    \"\"\"Another one.\"\"\"
    SAYS
    def round(self, t):
        return (yield from super().round(t))

@RULES("own")
@dataclass(frozen=True, kw_only=True)
class OwnRule(FedAvg):
    \"\"\"Names it.\"\"\"
    server = "own"
"""
    noisy = "training.name=own", "secagg=plain", "privacy.stages=[local_gaussian]"
    assert play(own.replace("SAYS", ""), *noisy)[1]["epsilon_max"] is None
    assert play(own.replace("SAYS", "counts_unsummed = True"), *noisy)[1]["epsilon_max"] > 0
