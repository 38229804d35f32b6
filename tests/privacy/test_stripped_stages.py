"""What a plugin does not say is the worst: without its declarations no stage and no rule has a better certificate."""

import json
from functools import cache
from math import inf

import pytest

from simfl.core.errors import SimflError
from simfl.privacy.stage import STAGES, Stage
from simfl.runs.run import run
from simfl.scenario import Scenario
from simfl.selection.theory.expected_cardinality import guarantee
from simfl.training.base import RULES, Rule
from tests.support.judge import table

REQUESTS = {"columns", "seeds"}
"""What a stage asks for, and says nothing by: without seeds xnoise takes no noise off, and there is more of it."""
CLAIMS = sorted({*Stage.__annotations__, "maps"} - REQUESTS - {"adds_noise"})
RULE_CLAIMS = sorted(name for name in Rule.__annotations__ if hasattr(Rule, name) and name not in (
    "algorithm", "columns", "fixed_denominator"))  # fmt: skip
OWN = [name for name, cls in STAGES.items() if cls.__module__.startswith("simfl.")]
OWN_RULES = [name for name, cls in RULES.items() if cls.__module__.startswith("simfl.")]
SETTINGS = {"adaptive_gaussian": {"bit_std": 4.0}, "xnoise": {"sharers": 4}}
PROTOCOL = {name: "secagg" for name in OWN if STAGES[name].whole}
DATA = {"data": "digits", "model": "logistic", "partition": "iid", "evaluate": {"every": 0}}
FEDAVG = {"name": "fedavg", "rounds": 3, "weighting": "equal", "weight_decay": 0.1, "batch_size": None}
FEDBUFF = FEDAVG | {"name": "fedbuff", "concurrency": 4, "buffer": 4, "staleness": "constant"}
BASE = {"name": "stripped", "clients": 8, "seed": 4, "selection": {"name": "random", "k": 4}, "training": FEDAVG}
COSTS = {"name": "none", "parameters": 10}
ACCOUNTANTS = [{"name": name, "delta": 1e-5} for name in ("zero_out", "pld", "rdp")]
SAMPLED = [{"name": name, "delta": 1e-5, "amplification": "poisson"} for name in ("pld", "rdp")]
CONTEXTS = {
    "alone": {},
    "pure accountants": {"accountants": ACCOUNTANTS[:1]},
    "after clipping": {"before": ["clipping"]},
    "before clipping": {"after": ["clipping"], "accountants": ACCOUNTANTS[:1]},
    "before Gaussian noise": {"after": [{"name": "central_gaussian", "noise_multiplier": 50.0}]},
    "after Gaussian noise": {"before": [{"name": "central_gaussian", "noise_multiplier": 50.0}]},
    "after local noise": {"before": ["local_gaussian"]},
    "samples weigh": {"training": FEDAVG | {"weighting": "samples"}, "max_weight": 500.0},
    "a median": {"training": FEDAVG | {"aggregate": "median"}},
    "top_k": {"compression": {"name": "top_k", "share": 0.1}},
    "random_k": {"compression": {"name": "random_k", "share": 0.1}},
    "quantised": {"compression": "quantise"},
    "a ledger": {"privacy": {"ledger": True}},
    "sampling": {"selection": {"name": "bernoulli", "k": 4}, "training": FEDAVG | {"denominator": "expected"},
                 "accountants": SAMPLED},
    "lost units": {"selection": {"name": "batch_partition", "k": 4, "T": 2}, "accountants": ACCOUNTANTS[:1],
                   "training": FEDAVG | {"rounds": 6},
                   "devices": {"failure": {"name": "bernoulli", "probability": 0.3}}},
    "serverless": {"selection": "all", "training": FEDAVG | {"name": "serverless"}},
    "buffered": {"training": FEDBUFF},
    "buffered models": {"training": FEDBUFF | {"mix": "models"}},
    "clients that leave": {"training": FEDAVG | {"client": {"name": "privacyfl", "tolerance": 1e-3}},
                           "selection": "all", "learning": DATA},
}  # fmt: skip
OTHER_NOISE = {"before Gaussian noise", "after Gaussian noise", "after local noise", "a ledger"}
"""Contexts with promises that do not rest on the stage's own noise."""


def is_gaussian(stage):
    noise = STAGES[stage].adds_noise
    return noise is not None and noise.gaussian


def text(stage, context, name=""):
    """The scenario of a stage, perhaps by another name, in a context."""
    found = dict(CONTEXTS[context])
    example = {**getattr(STAGES[stage], "example", {}), **SETTINGS.get(stage, {})}
    if "max_weight" in found and "max_weight" in STAGES[stage].__dataclass_fields__:
        example["max_weight"] = found["max_weight"]
    stages = [*found.pop("before", []), {**example, "name": name or stage}, *found.pop("after", [])]
    accountants = found.pop("accountants", ACCOUNTANTS if is_gaussian(stage) else ACCOUNTANTS[:1])
    privacy = {"stages": stages, "accountants": accountants} | found.pop("privacy", {})
    found.pop("max_weight", None)
    learning = DATA if STAGES[stage].certificate else COSTS
    base = BASE | {"learning": learning, "privacy": privacy, "secagg": PROTOCOL.get(stage, "plain")}
    return json.dumps(base | found)


def certificates(scenario, folder):
    """All that is promised, by name; the larger the worse; None = refused, in the scenario or while it runs."""
    try:
        made = Scenario.parse(scenario)
        done = run(made, folder).path
    except SimflError:
        return None
    promised = {name: -value for name, value in (guarantee(made) or {}).items() if value is not None}
    rows = table(done / "rounds.csv")
    first = next((t for t, row in enumerate(rows) if row["skipped"] == "0"), len(rows))  # before it nothing is released
    for t, row in list(enumerate(rows))[first:]:
        for name, cell in row.items():
            if name.startswith(("epsilon", "mu_")):
                promised[name, t] = float(cell or inf)
            elif name.startswith("privacy"):
                promised[name, t] = -float(cell or 1)
    return promised


@cache
def declared(stage, context):
    return certificates(text(stage, context), FOLDERS[0] / f"{stage}-{context}")


FOLDERS = []


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    FOLDERS[:] = [tmp_path_factory.mktemp("stripped")]


@cache
def stripped(stage, attributes):
    """The name of a stage that is this one, but says nothing of these attributes."""
    cls, name = STAGES[stage], f"{stage}_without_{'_'.join(attributes)}"
    STAGES(name)(type("Stripped", (cls,), {attribute: Stage.__dict__[attribute] for attribute in attributes}))
    return name


def said(stage):
    """What a stage says of itself otherwise than by saying nothing."""
    made = STAGES.of({"name": stage, **getattr(STAGES[stage], "example", {})})
    return [claim for claim in CLAIMS if claim == "maps" or getattr(made, claim) != Stage.__dict__[claim]]


def better(without, with_all):
    """Which certificates are better without the declarations: an epsilon also where all was refused, a guarantee, above
    1, only where there was one.
    """
    found = {name: value for name, value in (without or {}).items() if of_noise(name) or value < -1}
    if with_all is None:
        return [name for name, value in found.items() if of_noise(name) and value < inf]
    return [name for name, value in found.items() if value < with_all.get(name, inf) - 1e-9]


def of_noise(name):
    return isinstance(name, tuple) and name[0].startswith(("epsilon", "mu_"))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("stage", OWN)
def test_a_stage_that_says_less_has_no_better_certificate(stage, context, tmp_path):
    claims = said(stage)
    for i, attributes in enumerate([*((claim,) for claim in claims), tuple(claims)]):
        without = certificates(text(stage, context, stripped(stage, attributes)), tmp_path / str(i))
        assert not better(without, declared(stage, context)), (attributes, without, declared(stage, context))


@pytest.mark.parametrize("context", [name for name in CONTEXTS if name not in OTHER_NOISE])
@pytest.mark.parametrize("stage", [name for name in OWN if STAGES[name].adds_noise or STAGES[name].certificate])
def test_a_stage_that_does_not_say_that_it_noises_has_no_epsilon(stage, context, tmp_path):
    for i, attributes in enumerate([("adds_noise",), ("adds_noise", "certificate", *CLAIMS)]):
        name = stripped(stage, attributes)
        found = certificates(text(stage, context, name), tmp_path / str(i)) or {}
        finite = [
            name for name, value in found.items() if of_noise(name) and value < inf and (value or "max" in name[0])
        ]
        assert not finite or STAGES[name].certificate, (attributes, found)


RULES_OF = {
    "fedavg, leaving": ("fedavg", "clients that leave", "central_gaussian"),
    "fedavg, sampling": ("fedavg", "sampling", "central_gaussian"),
    "fedavg, samples": ("fedavg", "samples weigh", "central_gaussian"),
    "fedbuff": ("fedbuff", "buffered", "laplace_shares"),
    "fedbuff, models": ("fedbuff", "buffered models", "local_gaussian"),
    "fedbuff, old": ("fedbuff", "stale", "laplace_shares"),
    "serverless": ("serverless", "serverless", "output_perturbation"),
}
CONTEXTS["stale"] = {"training": FEDBUFF | {"staleness": "polynomial"}}


@pytest.mark.parametrize("case", RULES_OF)
def test_a_rule_that_says_less_has_no_better_certificate(case, tmp_path):
    rule, context, stage = RULES_OF[case]
    claims = {name: getattr(Rule, name) for name in RULE_CLAIMS} | {"by_samples": False}
    with_all = declared(stage, context)
    for i, lacking in enumerate([*({name: value} for name, value in claims.items()), claims]):
        name = f"{rule}_{'_'.join(lacking) if len(lacking) == 1 else 'silent'}_{list(RULES_OF).index(case)}_{i}"
        RULES(name)(type("Silent", (RULES[rule],), dict(lacking)))
        found = json.loads(text(stage, context))
        without = certificates(json.dumps(found | {"training": found["training"] | {"name": name}}), tmp_path / str(i))
        assert not better(without, with_all), (lacking, without, with_all)


def test_the_rules_that_are_tried_are_all_that_are_there():
    presets, without_stages = {"fedasync", "fedbuff_paper", "flsim"}, {"gossip", "lying_server"}
    assert {rule for rule, _, _ in RULES_OF.values()} == set(OWN_RULES) - presets - without_stages
