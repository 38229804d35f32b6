"""Clients that attack: what they send by small programs of the papers' definitions, what certificates then say, and
that nothing else changes.
"""

import csv
import json
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from simfl.clients.client_agents import CLIENT_AGENTS, AttackRun, AttackView, ClientAgent
from simfl.core.errors import PluginError
from simfl.core.rng import Streams
from simfl.core.types import Job, Updates
from simfl.runs.run import build, run
from simfl.scenario import InvalidScenario, Scenario
from tests.support.kills import files, killed_at_time

SCENARIO = """
name: attackers
clients: 12
seed: 2
network: {name: star, latency_s: {name: uniform, low: 0.1, high: 0.4}}
selection: {name: random, k: 8}
training: {name: fedavg, rounds: 4, batch_size: 16, learning_rate: 0.3, weighting: equal}
learning: {data: {name: synthetic, samples: 240, test_samples: 60, shape: [4], classes: 3}, model: logistic}
privacy: none
"""
SENDING = {
    "sign_flip": "sign_flip", "gaussian_noise": "{name: gaussian_noise, std: 1}", "alie": "alie",
    "model_replacement": "model_replacement", "free_rider": "free_rider",
    "inner_product": "{name: inner_product, factor: 0.5}", "min_max": "min_max",
    "min_sum": "{name: min_sum, knows: own}",
    "backdoor": "{name: backdoor, target: 0, boost: 5}",
}  # fmt: skip
"""Agents that send something else than they have trained."""
OTHERS = {
    "label_flip": "label_flip", "liar": "{name: liar, losses: 9, samples: 9}",
    "cutter": "{name: cutter, victims: '0', within: cohort}",
}  # fmt: skip


def parse(agent, *more, clients="0-3"):
    groups = f'agents.client={{name: mixed, groups: [{{agent: {agent}, clients: "{clients}"}}]}}'
    return Scenario.parse(SCENARIO, "attackers", [groups, *more])


def play(folder, scenario):
    path = run(scenario, folder).path
    with open(path / "rounds.csv", newline="") as lines:
        return np.load(path / "model.npy"), list(csv.DictReader(lines))


def view(deltas, others=(), previous=(), seed=0):
    deltas = np.asarray(deltas, dtype=np.float32)
    others = np.asarray(others, dtype=np.float32).reshape(-1, deltas.shape[1])
    rngs = tuple(np.random.default_rng([seed, i]) for i in range(len(deltas)))
    return AttackView(deltas, others, len(deltas) + len(others), np.asarray(previous, dtype=np.float32), rngs)


def drawn(seed, n=7, m=3, d=5):
    rng = np.random.default_rng(seed)
    return view(rng.normal(1, 1, (m, d)), rng.normal(1, 1, (n, d)), rng.normal(size=d))


@pytest.mark.parametrize(("n", "m"), [(50, 24), (50, 12), (11, 3), (12, 3), (20, 9)])
def test_alie_against_the_normal_distribution(n, m):
    """As many honest updates lie beyond the mean less z deviations, on average, as attackers lack for a majority."""
    seen = drawn(n, n - m, m)
    sent = CLIENT_AGENTS.of("alie").sends(seen)
    own = seen.deltas.astype(np.float64)
    z = (own.mean(axis=0) - sent[0]) / own.std(axis=0)
    assert np.ptp(sent, axis=0).max() == 0 and np.allclose(z, z[0], atol=1e-5)
    majority = n // 2 + 1
    assert (n - m) * (1 - NormalDist().cdf(z[0])) == pytest.approx(majority - m, abs=1e-3)


def test_alie_of_few_and_of_most():
    """One attacker has no deviation to go by, and a majority of attackers does not need any."""
    assert np.array_equal(CLIENT_AGENTS.of("alie").sends(view([[1, 2]], np.ones((9, 2)))), np.float32([[1, 2]]))
    for m, n in ((3, 0), (3, 1), (5, 2), (2, 2)):
        sent = CLIENT_AGENTS.of("alie").sends(drawn(m, n, m))
        assert np.isfinite(sent).all()


def by_bisection(allowed):
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


@pytest.mark.parametrize("perturbation", ["std", "sign", "unit"])
@pytest.mark.parametrize("knows", ["all", "own"])
@pytest.mark.parametrize("seed", range(4))
def test_min_max_and_min_sum_by_bisection(seed, knows, perturbation):
    seen = drawn(seed)
    known = (seen.others if knows == "all" else seen.deltas).astype(np.float64)
    mean = known.mean(axis=0)
    away = {"std": -known.std(axis=0), "sign": -np.sign(mean), "unit": -mean / np.linalg.norm(mean)}[perturbation]
    pairs = [[np.linalg.norm(one - other) for other in known] for one in known]
    widest, largest = np.max(pairs), np.max(np.square(pairs).sum(axis=1))

    def to_all(gamma):
        return np.array([np.linalg.norm(mean + gamma * away - each) for each in known])

    for name, allowed in (
        ("min_max", lambda gamma: to_all(gamma).max() <= widest),
        ("min_sum", lambda gamma: (to_all(gamma) ** 2).sum() <= largest),
    ):
        agent = CLIENT_AGENTS[name](perturbation=perturbation, knows=knows)
        sent = agent.sends(seen._replace(others=seen.others[: len(seen.others) * agent.omniscient]))
        assert np.allclose(sent, mean + by_bisection(allowed) * away, atol=1e-4)


def test_the_others_by_hand():
    seen = view([[1, -2], [3, 0]], [[2, 2], [4, 2], [0, 2]], [6, 8])
    assert CLIENT_AGENTS.of("sign_flip").sends(seen).tolist() == [[-1, 2], [-3, 0]]
    assert CLIENT_AGENTS["inner_product"](factor=0.5).sends(seen).tolist() == [[-1, -1]] * 2
    assert CLIENT_AGENTS.of("model_replacement").sends(seen).tolist() == [[2.5, -5], [7.5, 0]]
    assert CLIENT_AGENTS["model_replacement"](boost=2.0).sends(seen).tolist() == [[2, -4], [6, 0]]
    assert CLIENT_AGENTS.of("free_rider").sends(seen).tolist() == [[6, 8]] * 2
    noise = CLIENT_AGENTS["free_rider"](resends=False).sends(seen)
    assert np.allclose(np.linalg.norm(noise, axis=1), 10) and not np.array_equal(*noise)
    many = CLIENT_AGENTS["gaussian_noise"](std=3.0).sends(view(np.zeros((2, 50_000))))
    assert np.allclose(many.std(axis=1), 3, atol=0.05) and np.allclose(many.mean(axis=1), 0, atol=0.06)


def test_replacement_by_all_attackers_leaves_their_model():
    """Of honest updates that cancel, the mean is the attackers' mean update."""
    seen = view([[2, 4], [4, 8]], [[1, 1], [-1, -1]])
    sent = CLIENT_AGENTS.of("model_replacement").sends(seen)
    assert np.concatenate([sent, seen.others]).mean(axis=0).tolist() == [3, 6]


def test_labels_and_marks():
    x, y = np.zeros((6, 1, 4, 4), dtype=np.float32), np.array([0, 1, 2, 0, 1, 2])
    rng = np.random.default_rng(0)
    assert CLIENT_AGENTS.of("label_flip").poisons(x, y, 3, rng)[1].tolist() == [2, 1, 0, 2, 1, 0]
    assert CLIENT_AGENTS["label_flip"](source=1, target=2).poisons(x, y, 3, rng)[1].tolist() == [0, 2, 2, 0, 2, 2]
    backdoor = CLIENT_AGENTS["backdoor"](target=1, side=2, value=7.0, share=0.5)
    new, labels = backdoor.poisons(x, y, 3, rng)
    marked = new.any(axis=(1, 2, 3))
    assert marked.sum() == 3 and (labels[marked] == 1).all() and (labels == y)[~marked].all()
    assert np.argwhere(new[marked][0, 0]).tolist() == [[2, 2], [2, 3], [3, 2], [3, 3]] and not x.any()
    assert backdoor.stamp(np.zeros((1, 5))).tolist() == [[0, 0, 0, 7, 7]]


@pytest.mark.parametrize("agent", [*SENDING, *OTHERS])
def test_no_attackers_leave_the_bytes_of_the_standard_run(agent, tmp_path):
    """A group that nobody belongs to."""
    text = {**SENDING, **OTHERS}[agent]
    group = f"agents.client={{name: mixed, groups: [{{agent: {text}, share: 1e-9}}]}}"
    more = ["training.deadline_s=100", "training.on_failure=drop_unit"]
    model, rows = play(tmp_path / "a", Scenario.parse(SCENARIO, "attackers", [group, *more]))
    standard, wanted = play(tmp_path / "b", Scenario.parse(SCENARIO, "attackers", more))
    assert np.array_equal(model, standard)
    assert [{key: row[key] for key in wanted[0]} for row in rows] == wanted


@pytest.mark.parametrize("agent", SENDING)
def test_attackers_change_what_is_sent_and_nothing_else(agent, tmp_path):
    model, rows = play(tmp_path / "a", parse(SENDING[agent]))
    standard, wanted = play(tmp_path / "b", Scenario.parse(SCENARIO, "attackers"))
    assert not np.array_equal(model, standard)
    for name in ("time_s", "cardinality", "bytes_up", "bytes_down", "failed"):
        assert [row[name] for row in rows] == [row[name] for row in wanted]


@pytest.mark.parametrize("agent", ["alie", "gaussian_noise", "free_rider", "backdoor"])
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["training={name: fedbuff, buffer: 3, concurrency: 6, rounds: 6, batch_size: 16}"],
        ["training.aggregate={name: centred_clipping, radius: 0.5}"],
        ["secagg=secagg", "compression={name: random_k, share: 0.5}"],
        ["training.client=scaffold"],
        ["topology={name: tree, edges: 2}", "selection.k=3", "network={name: star, latency_s: 0.1}"],
    ],
    ids=["mean", "fedbuff", "clipping", "masked", "scaffold", "tree"],
)
def test_a_killed_run_goes_on_with_the_same_bytes(agent, more, tmp_path):
    scenario = parse(SENDING[agent], *more)
    whole = run(scenario, tmp_path / "whole").path
    with open(whole / "rounds.csv", newline="") as lines:
        time_s = 0.6 * float(list(csv.DictReader(lines))[-1]["time_s"])
    assert killed_at_time(time_s, lambda: run(scenario, tmp_path / "killed"))
    assert files(run(scenario, tmp_path / "killed").path) == files(whole)


@pytest.mark.parametrize("agent", ["alie", "min_max", "free_rider", "liar", "cutter"])
def test_both_engines_give_the_same_model(agent, tmp_path):
    text = {**SENDING, **OTHERS}[agent]
    more = ["training.deadline_s=100", "training.on_failure=drop_unit"]
    engines = ["agents.engine=arrays", "agents.engine=processes"]
    one, other = (play(tmp_path / engine[-4:], parse(text, *more, engine)) for engine in engines)
    assert np.array_equal(one[0], other[0]) and one[1] == other[1]


def test_batches_of_one_agent_know_only_what_they_say():
    """Who is not omniscient is shown nobody else's update, who does not remember no sum; views cannot be written to."""
    shown = []

    class Spy(type(CLIENT_AGENTS.of("sign_flip"))):
        omniscient = reads_previous = False

        def sends(self, view):
            shown.append(view)
            return view.deltas

    deltas = np.arange(8, dtype=np.float32).reshape(4, 2)
    jobs = [Job.of(0, client, 0, 0.0) for client in range(4)]
    attack_run = AttackRun(Scenario.parse(SCENARIO, "attackers"), Streams(0))
    spy, honest = Spy(), CLIENT_AGENTS.of("standard")
    attack_run.agent_of = lambda client: spy if client in (1, 3) else honest
    attack_run.sends(jobs, Updates(deltas, np.ones(4, dtype=np.int64), np.zeros(4)), np.ones(2, np.float32), 1)
    (seen,) = shown
    assert seen.deltas.tolist() == deltas[[1, 3]].tolist() and seen.updates == 4
    assert seen.others.shape == (0, 2) and seen.previous.shape == (0,) and not seen.deltas.flags.writeable


MULTIROUND = ["privacy=multi_round", "secagg=secagg", "selection={name: batch_partition, k: 8, T: 4}"]


@pytest.mark.parametrize("agent", [*SENDING, *OTHERS])
def test_who_sends_more_than_its_update_says_has_no_guarantee(agent, tmp_path):
    """An agent whose updates follow from its own alone leaves the certificate as it is."""
    text = {**SENDING, **OTHERS}[agent]
    more = ["training.deadline_s=100", "training.on_failure=drop_unit", *MULTIROUND]
    summary = json.loads((run(parse(text, *more), tmp_path).path / "summary.json").read_text())
    guarantees = {summary[f"guarantee_{notion}"] for notion in ("strong", "semi_strong", "weak")}
    assert guarantees == ({4} if agent in ("sign_flip", *OTHERS) else {1})


@pytest.mark.parametrize(("agent", "proven"), [("sign_flip", True), ("alie", False), ("model_replacement", False)])
def test_noise_has_an_epsilon_only_beside_those_whose_update_is_theirs(agent, proven, tmp_path):
    more = [
        "privacy={stages: [{name: central_gaussian, clip_norm: 1, noise_multiplier: 1}]}",
        "training.weighting=equal",
    ]
    summary = json.loads((run(parse(agent, *more), tmp_path).path / "summary.json").read_text())
    known = [value for name, value in summary.items() if name.startswith("epsilon") and isinstance(value, float)]
    assert bool(known and np.isfinite(known).all()) == proven


@pytest.mark.parametrize(
    ("told", "weighting", "known"), [(10, "samples", False), (1, "samples", True), (10, "equal", True)]
)
def test_nothing_is_certified_of_weights_that_clients_make_up(told, weighting, known, tmp_path):
    """Told samples weigh up to the largest client's: an update would move a noised sum further than epsilon says."""
    liar = f"{{name: mixed, groups: [{{agent: {{name: liar, samples: {told}}}, clients: 0-2}}]}}"
    stage = "privacy.stages=[{name: central_gaussian, clip_norm: 1, noise_multiplier: 1, max_weight: 4000}]"
    more = [f"training.weighting={weighting}", f"agents.client={liar}"]
    noised = run(parse("sign_flip", *more, stage), tmp_path).summary
    assert (noised["epsilon_max"] is not None) == known
    summed = run(parse("sign_flip", *more, *MULTIROUND, "training.on_failure=drop_unit"), tmp_path).summary
    assert {summed[f"guarantee_{notion}"] for notion in ("strong", "semi_strong", "weak")} == ({4} if known else {1})


def test_of_an_agent_that_hands_out_others_nothing_is_known():
    """Its own class sends and reports nothing; those that it hands out may."""

    class Handing(type(CLIENT_AGENTS.of("patient"))):
        def of_each(self, clients, streams):
            return lambda client: CLIENT_AGENTS.of({"name": "liar", "samples": 9.0})

    class Promising(Handing):
        tells_samples = False

    assert Handing().tells_samples and not Handing().per_client
    setting = SimpleNamespace(agents=SimpleNamespace(all_standard=False, client=Promising()), clients=4)
    attack_run = AttackRun(setting, Streams(0))
    with pytest.raises(PluginError, match="reports other samples than it has; say tells_samples"):
        attack_run.reports("samples", [0, 1], np.array([3, 4]))
    honest = CLIENT_AGENTS.of("patient")
    assert not honest.tells_samples and honest.per_client


def test_liars_are_selected(tmp_path):
    """Oort goes by losses: who says that its own are large is asked more often."""
    oort = ["selection={name: oort, k: 3, scalars: clear}", "training.rounds=30"]
    counts = []
    for factor in (1, 50):
        scenario = parse(f"{{name: liar, losses: {factor}}}", *oort, clients="0-2")
        path = run(scenario, tmp_path / str(factor)).path
        with open(path / "participation.csv", newline="") as lines:
            counts.append(sum(int(row["client"]) < 3 for row in csv.DictReader(lines)))
    assert counts[1] > 1.3 * counts[0]


def test_samples_weigh_as_said_and_no_more_than_the_largest(tmp_path):
    weighted = ["training.weighting=samples", "learning.partition={name: quantity}", "selection=all"]
    parts = build(parse("{name: liar, samples: 1000}", *weighted))
    jobs = [Job.of(0, client, 0, 0.0) for client in range(12)]
    parts.learner.put(0, parts.learner.initial())
    run_of = AttackRun(parts, parts.streams)
    true = parts.learner.train(jobs)
    said = run_of.sends(jobs, true, np.zeros(0, np.float32), int(parts.learner.samples.max()))
    assert (said.examples[:4] == parts.learner.samples.max()).all()
    assert np.array_equal(said.examples[4:], true.examples[4:]) and np.array_equal(said.deltas, true.deltas)


def test_poisoned_samples_are_the_attackers_alone():
    """Everybody else holds the samples as they are, also the same ones; the server's own are clean."""
    bootstrap = "learning.partition={name: bootstrap}"
    clean, bad = (build(parse(agent, bootstrap)).learner for agent in ("standard", "label_flip"))
    count = len(clean.data.y_train)
    for client in range(12):
        one, other = clean.partition[client], bad.partition[client]
        assert np.array_equal(clean.data.x_train[one], bad.data.x_train[other])
        labels = clean.data.y_train[one]
        assert np.array_equal(2 - labels if client < 4 else labels, bad.data.y_train[other])
        assert np.array_equal(bad.origins[other], one)
    assert bad.clean == count and np.array_equal(bad.data.y_train[:count], clean.data.y_train)
    for learner in (clean, bad):
        learner.put(0, learner.initial())
    assert np.array_equal(clean.root_update(0, 50), bad.root_update(0, 50))


def test_a_cutter_fails_beside_its_victims(tmp_path):
    """Whom it meets is read from the same run without a cutter, in which everybody who is asked is summed."""
    more = ["training.deadline_s=100", "training.on_failure=drop_unit", "training.rounds=12"]

    def summed(agent):
        path = run(parse(agent, *more, clients="1"), tmp_path / agent[:9]).path
        rounds = [set() for _ in range(12)]
        with open(path / "participation.csv", newline="") as lines:
            for row in csv.DictReader(lines):
                rounds[int(row["round"])].add(int(row["client"]))
        return rounds

    met = []
    for cohort, left in zip(summed("standard"), summed("{name: cutter, victims: '0', within: cohort}"), strict=True):
        assert cohort - left == ({1} if {0, 1} <= cohort else set())
        met += [0 in cohort] if 1 in cohort else []
    assert len(set(met)) == 2


@pytest.mark.parametrize(
    ("agent", "more", "words"),
    [
        ("{name: cutter, victims: '0'}", [], "training.deadline_s"),
        ("{name: cutter, victims: '0'}", ["training=serverless"], "whom a server asks"),
        ("{name: gaussian_noise}", [], "std"),
        ("{name: min_max, perturbation: up}", [], "perturbation"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(agent, more, words):
    with pytest.raises(InvalidScenario, match=words):
        parse(agent, *more)


@pytest.mark.parametrize(
    ("said", "changes", "counts"), [(None, True, True), (False, True, False), (None, False, False)]
)
def test_an_agent_that_does_not_say_whether_it_attacks_counts_if_it_sends_something_else(said, changes, counts):
    class Quiet(ClientAgent):
        attacks = said

        def run(self, node):
            yield node.receive("model")

    if changes:
        Quiet.sends = lambda self, view: 2 * view.deltas
    attack_run = AttackRun(Scenario.parse(SCENARIO, "attackers"), Streams(0))
    attack_run.agent_of = lambda client: Quiet()
    assert attack_run.attackers([0, 1]).tolist() == [counts, counts]
