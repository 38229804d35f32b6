"""What the scripts of results/paper001 compute, against brute force."""

import re
import sys
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from scipy.stats import binom, hypergeom

from simfl import load
from simfl.api.result_objects import Result
from simfl.clients.local_training import LocalTraining
from simfl.core.registration.family_index import undone
from simfl.runs.run import run
from simfl.scenario import Scenario

FOLDER = Path(__file__).resolve().parents[2] / "results" / "paper001"
OWN = ("cells", "convex", "figures", "figures_drawing", "printed", "schemes", "skipped", "tables", "convergence")


@pytest.fixture(scope="module", autouse=True)
def importable():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
    for name in OWN:
        sys.modules.pop(name, None)


def small():
    """Four clients of six samples in three classes."""
    from convex import Task

    rng = np.random.default_rng(4)
    task = Task(rng.normal(0, 1.5, (24, 2)), rng.integers(3, size=24), 3, 0.4)
    return task, np.split(rng.permutation(24), 4), rng.normal(0, 0.3, 9)


def hessian(task, at, step=1e-5):
    slopes = [(task.loss(at + step * way)[1] - task.loss(at - step * way)[1]) / (2 * step) for way in np.eye(len(at))]
    return np.array(slopes)


def test_the_loss_and_its_gradient():
    task, _, at = small()
    weights, intercepts = at[:6].reshape(3, 2), at[6:]
    losses = []
    for x, y in zip(task.x, task.y, strict=True):
        scores = [
            sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(weights, intercepts, strict=True)
        ]
        losses.append(-scores[y] + np.log(sum(np.exp(score) for score in scores)))
    value, slope = task.loss(at)
    assert value == pytest.approx(np.mean(losses) + 0.2 * sum(at**2))
    numeric = [(task.loss(at + 1e-6 * way)[0] - task.loss(at - 1e-6 * way)[0]) / 2e-6 for way in np.eye(9)]
    np.testing.assert_allclose(slope, numeric, atol=1e-8)


def test_the_constants_hold_wherever_training_can_go():
    from convex import constants

    task, parts, start = small()
    batch = 2
    found = constants(task, parts, batch, start)
    radius = found.gradient_bound / task.l2  # beyond the ball that the models stay in
    rng = np.random.default_rng(1)
    sharpest, noisiest, steepest = 0.0, np.zeros(4), 0.0
    for reach in (0.0, 0.1, 1.0, radius / 2):
        for _ in range(6):
            way = rng.normal(size=9)
            at = reach * way / np.linalg.norm(way)
            for i, part in enumerate(parts):
                own = task.of(part)
                values = np.linalg.eigvalsh(hessian(own, at))
                assert values[0] >= found.convexity - 1e-6 and values[-1] <= found.smoothness + 1e-6
                every = [task.of(part[list(chosen)]).loss(at)[1] for chosen in combinations(range(6), batch)]
                spread = np.mean([np.sum((slope - own.loss(at)[1]) ** 2) for slope in every])
                assert spread <= found.gradient_variance[i]
                sharpest, steepest = max(sharpest, values[-1]), max(steepest, *map(np.linalg.norm, every))
                noisiest[i] = max(noisiest[i], spread / found.gradient_variance[i])
    assert steepest <= found.gradient_bound
    assert sharpest > found.smoothness / 3 and noisiest.max() > 0.1, "constants that say something"
    value, slope = task.loss(found.best)
    assert value == pytest.approx(found.least) and np.abs(slope).max() < 1e-6
    own = [task.of(part).optimum()[0] for part in parts]
    assert found.heterogeneity == pytest.approx(found.least - np.mean(own)) and found.heterogeneity > 0
    assert found.initial_distance == pytest.approx(np.linalg.norm(start - found.best))


TINY = """
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.2}}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 60, local_steps: 1, batch_size: 5, learning_rate: 0.1, half_at: 30, weight_decay: 0.5}
learning:
  data: {name: synthetic, samples: 240, test_samples: 50, shape: [3], classes: 3}
  model: logistic
  evaluate: 0
metrics: [objective]
"""


@pytest.fixture
def forgetful():
    """The plugin of a test's scenario is not known to those that follow."""
    with undone():
        yield


def test_the_bound_holds_for_a_run_at_the_theorems_rate(forgetful, tmp_path):
    from convergence import bound, known, rate

    plugin = [FOLDER / "objective.py"]
    found = known(Scenario.parse(TINY, "tiny", plugins=plugin))
    changes = [f"{key}={float(value)}" for key, value in rate(found).items()]
    result = Result.open(run(Scenario.parse(TINY, "tiny", changes, plugins=plugin), tmp_path).path)
    objective = result.rounds.objective.dropna()
    gap = objective.to_numpy() - found.least
    limit = bound(found, result, objective.index.to_numpy() + 1)
    assert len(gap) == 6 and (gap > 0).all() and (gap < limit).all() and gap[-1] < gap[0]
    assert (np.diff(limit) < 0).all()


def test_the_rate_falls_as_one_over_the_round():
    local = LocalTraining(learning_rate=0.6, half_at=20)
    assert [local.rate(t) for t in (0, 20, 40)] == pytest.approx([0.6, 0.3, 0.2])
    gamma, mu = 31.0, 0.5
    theorem = LocalTraining(learning_rate=2 / (mu * gamma), half_at=gamma)
    assert theorem.rate(17) == pytest.approx(2 / (mu * (gamma + 17)))


def test_dropout_follows_the_label():
    from labels import MNIST_LABELS, SHARDS, dropout_by_label

    assert sum(MNIST_LABELS) == 60_000
    rates = dropout_by_label(range(120))
    assert rates[0] == 0.1 and rates[10] == 0.1 and rates[-1] == 0.5
    assert rates[11] == 0.125, "samples 5,500 to 5,999: zeros and ones"
    assert rates == sorted(rates) and len(rates) == 120
    assert sorted(SHARDS) == list(range(120)) and dropout_by_label() == [rates[shard] for shard in SHARDS]


def test_every_cell_can_be_played():
    from cells import CELLS, MARKS, fitting
    from schemes import SCENARIOS

    for cell in (cell for cells in CELLS.values() for cell in cells):
        fixed = {key: value[0] if isinstance(value, list) else value for key, value in cell.fixed.items()}
        for choice in cell.schemes.values():
            scenario = load(SCENARIOS / cell.file, {"selection": choice, **fixed})
        assert all(mark % scenario.learning.evaluate.every == 0 for mark in MARKS[cell.table]), "told where measured"
        assert scenario.training.rounds == MARKS[cell.table][-1]
    assert set(fitting(120, 6)) == {"random", "weighted", "partition", "batch T=3"}
    assert len(fitting(240, 12)) == len(fitting(120, 24)) == len(fitting(60, 12)) == 6


def test_a_tables_row():
    from tables import row

    rounds = [9, 19, 29, 39, 49, 59]
    base = pandas.DataFrame({0: [1.0, 2, 3, 4, 5, 6], 1: [2.0, 3, 4, 5, 6, 7]}, index=rounds)
    other = base + pandas.DataFrame({0: [1.0] * 6, 1: [3.0] * 6}, index=rounds)
    told = row(other, base, (10, 60))
    assert told["after_10"] == 3.5 and told["after_60"] == 8.5 and (told["lowest"], told["highest"]) == (7, 10)
    assert told["minus_random"] == 2
    half = 12.706 * np.std([1, 3], ddof=1) / 2**0.5  # Student's t, one degree of freedom
    assert told["minus_random_upper"] == pytest.approx(2 + half, rel=1e-4)


def test_issued_numbers_fit_together():
    published = pandas.read_csv(FOLDER / "published.csv")
    assert published.printed.notna().all() and len(published) == 36
    counts = pandas.read_csv(FOLDER / "table1.csv").set_index("scheme").family
    assert counts[["partition", "batch T=6", "batch T=4", "batch T=3"]].tolist() == [10, 190, 4060, 91_390]


def test_a_table_may_grow_by_and_by(tmp_path, monkeypatch):
    import tables
    import tables_drawing
    from tables import added, table

    def rows(setting: str, seeds: range) -> tuple[pandas.DataFrame, pandas.DataFrame]:
        places = [(scheme, seed) for scheme in ("random", "partition") for seed in seeds]
        runs = [(setting, scheme, seed, 60, f"{seed}e1", 12.0 - seed) for scheme, seed in places]
        curves = [(setting, *place, at, at + len(place[0]) * place[1]) for place in places for at in range(9, 60, 10)]
        return (
            pandas.DataFrame(runs, columns=["setting", "scheme", "seed", "rounds", "digest", "mean_cardinality"]),
            pandas.DataFrame(curves, columns=["setting", "scheme", "seed", "round", "test_accuracy"]),
        )

    order = ["IID", "non-IID"]
    for setting, seeds in (("non-IID", range(2)), ("IID", range(1, 3)), ("IID", range(2))):
        runs, curves = (
            added(found, tmp_path / name, order)
            for found, name in zip(rows(setting, seeds), ("runs", "curves"), strict=True)
        )
    assert len(runs) == 2 * (3 + 2) and runs.digest.str.endswith("e1").all(), "seed 1 of IID is there once"
    grown = table(4, runs, curves)
    whole = [pandas.concat(both) for both in zip(rows("IID", range(3)), rows("non-IID", range(2)), strict=True)]
    pandas.testing.assert_frame_equal(grown, table(4, *whole))
    assert grown.seeds.tolist() == [3, 3, 2, 2] and grown.minus_random.tolist() == [0, 3, 0, 1.5]
    monkeypatch.setattr(tables_drawing, "HERE", tmp_path)
    some = curves[(curves.setting == "IID") | (curves.scheme == "random")]  # two of the six schemes, and one
    tables.draw(pandas.concat([some, curves.assign(setting="a third")]), 4, "grown")
    assert (tmp_path / "grown.svg").exists()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("table[2-4]_*.csv")), ids=lambda file: file.stem)
def test_a_table_is_made_of_the_runs_beside_it(file):
    from tables import table

    stem = file.stem.removeprefix("table")
    runs, curves = (pandas.read_csv(FOLDER / f"{name}{stem}.csv", dtype={"digest": str}) for name in ("runs", "curves"))
    written = table(int(stem[0]), runs, curves).to_csv(index=False, float_format="%.6g")
    assert written == file.read_text()


def test_skipped_rounds_of_dealt_probabilities():
    """Rates drawn independently: every unit is available with probability 0.7^T, whatever the others are."""
    from skipped import expected

    for clients, k, unit in ((120, 12, 12), (120, 12, 6), (120, 12, 4), (60, 12, 6), (240, 12, 6), (120, 24, 6)):
        here = binom(clients // unit, 0.7**unit).cdf(k // unit - 1)
        mean, lower, upper = expected(clients, k, unit, 1000, by_label=False)
        assert mean == pytest.approx(1000 * here, rel=0.02, abs=0.5) and lower <= mean <= upper
    assert np.isnan(expected(120, 6, 4, 1000, by_label=False)).all()


def test_the_ablation_skips_as_theory_says():
    from skipped import expected

    expected = cache(expected)
    told = pandas.read_csv(FOLDER / "skipped.csv").query("simfl_rounds == 200 and data == 'CIFAR-10'")
    sizes = told.scheme.map({"batch T=3": 3, "batch T=4": 4, "batch T=6": 6}).fillna(told.k)
    sizes[told.scheme.isin(["random", "weighted"])] = 1
    assert len(told) == 22
    for place, size in zip(told.itertuples(), sizes.astype(int), strict=True):
        _, lower, upper = expected(place.clients, place.k, size, 200, by_label=False)
        assert lower <= place.simfl_lowest <= place.simfl_highest <= upper


def test_published_rounds_that_changed_nothing():
    counts = pandas.read_csv(FOLDER / "published_runs.csv")
    groups = counts.groupby(["data", "setting", "clients", "k", "scheme"])
    told = pandas.read_csv(FOLDER / "skipped.csv").set_index(groups.keys)
    assert len(told) == groups.ngroups == 48
    assert (told.lowest == groups.unchanged.min()[told.index]).all()
    assert (told.highest == groups.unchanged.max()[told.index]).all()
    few = told[told.highest < told.expected_lower]
    assert few.index.get_level_values("scheme").tolist() == ["batch T=6"] * 3, "said on the page"


@pytest.mark.parametrize("name", ["table2_reduced", "table3_authors", "table4_authors"])
def test_the_page_holds_the_tables(name):
    from cells import CONTROLS
    from printed import markdown

    told = (FOLDER / "README.md").read_text().splitlines()
    for setting, rows in pandas.read_csv(FOLDER / f"{name}.csv").groupby("setting", sort=False):
        if setting not in CONTROLS:
            assert [line for line in markdown(int(name[5]), rows) if line not in told] == []


def test_all_tables_are_printed(monkeypatch, capsys):
    import printed

    monkeypatch.setattr(sys, "argv", ["printed.py"])
    printed.main()
    told = capsys.readouterr().out.splitlines()
    heads = [f"{file.stem.removeprefix('table')}, " for file in FOLDER.glob("table[2-4]_[!t]*.csv")]
    assert heads and all(any(line.startswith(head) for line in told) for head in heads)
    ours = pandas.read_csv(FOLDER / "curves3_authors.csv").query("setting == 'IID' and round == 999")
    alike = ours[ours.scheme.isin(["random", "weighted", "batch T=4", "batch T=3"])].test_accuracy.mean()
    assert [line for line in told if line.startswith(f"random, weighted, batch T=4, batch T=3, 1000: {alike:.2f} ± ")]


def test_the_page_has_the_ablation_beside_its_stored_curves():
    """Stored runs, and three seeds of `random` without momentum, after 20, 60, 100 and 200 rounds."""
    stored = pandas.read_csv(FOLDER / "published_runs.csv").query("data == 'CIFAR-10' and setting == 'IID'")
    stored = stored[stored.scheme.isin(["random", "weighted", "batch T=3"])].set_index(["clients", "k"])
    curves = pandas.read_csv(FOLDER / "curves3_ablation_200_rounds.csv").query("scheme == 'random' and seed < 3")
    curves = curves.set_index(["setting", "round"]).test_accuracy.sort_index()
    told = (FOLDER / "README.md").read_text()
    means, marks = {}, (20, 60, 100, 200)
    for n, k in ((60, 12), (240, 12), (120, 6), (120, 24)):
        theirs = [stored.loc[(n, k), f"after_{mark}"].mean() for mark in marks]
        means[f"{n}, {k}"] = theirs, [curves[f"N={n},K={k}", mark - 1].mean() for mark in marks]
    for name, both in (means | {"mean": np.mean(list(means.values()), axis=0)}).items():
        row = re.search(rf"^\| {name} \| (.*) \| (.*) \|$", told, re.MULTILINE).groups()
        for cell, values in zip(row, both, strict=True):
            assert [float(value) for value in cell.split(",")] == pytest.approx(values, abs=0.051)


def test_fishers_test_of_lost_digits():
    from printed import lost

    digits = pandas.read_csv(FOLDER / "digits4_authors.csv", dtype={"lost": str})
    ours = [line for line in lost(digits) if "by label" in line and "at random" in line]
    tail = hypergeom(50, 13, 25)
    p = sum(tail.pmf(n) for n in range(14) if tail.pmf(n) <= tail.pmf(4) * (1 + 1e-9))
    name = "runs that lost a digit: 4 of 25 in non-IID, dropout by label; 9 of 25 in non-IID, dropout at random; p"
    assert ours == [f"{name} {p:.3f}"]


def test_one_published_run_is_held_against_the_spread_of_ours():
    from printed import far

    rng = np.random.default_rng(2)
    drawn = [(pandas.Series(rng.normal(5, 2, 3)), pandas.Series(rng.normal(5, 2, 1))) for _ in range(2000)]
    p = np.array([far(*both) for both in drawn])
    for level in (0.05, 0.5):
        assert np.mean(p < level) == pytest.approx(level, abs=4 * (level * (1 - level) / 2000) ** 0.5)
    assert far(pandas.Series([1.0]), pandas.Series([1.0])) is None


def test_lost_digits_are_of_the_runs_of_the_table():
    place = ["setting", "scheme", "seed"]
    digits = pandas.read_csv(FOLDER / "digits4_authors.csv").set_index(place)
    curves = pandas.read_csv(FOLDER / "curves4_authors.csv")
    ended = curves[curves["round"] == 199].set_index(place).test_accuracy
    assert np.allclose(digits.test_accuracy, ended[digits.index]) and len(digits) == len(ended)
    complete = digits.lost.isna()
    assert (digits.others[complete] == digits.test_accuracy[complete]).all()
    assert (digits.others[~complete] > digits.test_accuracy[~complete] + 5).all(), "a digit is a tenth of the images"


def test_split_and_initial_model_of_another_seed(forgetful):
    from simfl.core.rng import Streams
    from simfl.learning.models.build import build, initial

    base = Path(__file__).resolve().parents[2] / "scenarios" / "paper001_cifar10_authors.yaml"
    of = {"learning.partition": "iid_of:draw=3", "learning.model": "multiround_cifar_of:draw=3"}
    plain, drawn = load(base).learning, load(base, of, plugins=["../results/paper001/drawn.py"]).learning
    data = SimpleNamespace(y_train=np.zeros(1000))
    for there in (3, 4):
        split = [
            choice.split(data, 10, Streams(seed)("partition"))
            for choice, seed in ((plain.partition, there), (drawn.partition, 0))
        ]
        models = [
            initial(build(choice, (3, 32, 32), 10), Streams(seed)("model"))
            for choice, seed in ((plain.model, there), (drawn.model, 0))
        ]
        same = [np.array_equal(*(part.indices for part in split)), np.array_equal(*models)]
        assert same == [there == 3] * 2


def test_convergence_bound_by_hand():
    """N=10, K=4, E=2, rho=2, mu=1, sigma^2=3, G=1, Gamma=0.5, |x0-x*|=2, C=3, J=5."""
    from bound import convergence_bound

    alpha, beta, gamma = 3 + 6 * 2 * 0.5 + 8, 4 * 6 * 4 / (4 * 9), 16
    expected = 2 / (gamma + 3 / 4 * 2 * 5 - 1) * (2 * (alpha + beta) + gamma / 2 * 4)
    settings_ = dict(clients=10, k=4, epochs=2, smoothness=2.0, convexity=1.0, gradient_bound=1.0)
    settings_ |= dict(heterogeneity=0.5, initial_distance=2.0)
    bound = convergence_bound(5, cardinality=3.0, gradient_variance=3.0, **settings_)
    assert bound == pytest.approx(expected)
    assert convergence_bound(5, cardinality=3.0, gradient_variance=[1.0, 5.0], **settings_) == pytest.approx(expected)
    curve = convergence_bound(np.arange(0, 500, 10), cardinality=3.0, gradient_variance=3.0, **settings_)
    full = convergence_bound(np.arange(0, 500, 10), cardinality=4.0, gradient_variance=3.0, **settings_)
    assert (np.diff(curve) < 0).all() and (full[1:] < curve[1:]).all() and full[0] == curve[0]
    with pytest.raises(ValueError, match="cardinality"):
        convergence_bound(5, cardinality=5.0, gradient_variance=3.0, **settings_)
    with pytest.raises(ValueError, match="negative"):
        convergence_bound(-1, cardinality=3.0, gradient_variance=3.0, **settings_)


def test_marks_of_figure_3_are_rounds_of_its_runs(tmp_path):
    from figures import MARKS, marks

    text = "{clients: 12, selection: {name: random, k: 4}, training: {name: fedavg, rounds: 200}, learning: none}"
    results = [Result.open(run(Scenario.parse(text, f"s{s}", [f"seed={s}"]), tmp_path).path) for s in range(2)]
    table = marks("paper", {"random": results}).set_index(["seed", "round"])
    assert len(table) == 2 * len(MARKS)
    for (seed, mark), row in table.iterrows():
        assert row.fairness_gap == results[seed].rounds.fairness_gap[mark]
    issued = pandas.read_csv(FOLDER / "figure3_marks.csv")
    shown = pandas.read_csv(FOLDER / "figure3.csv").set_index(["scheme", "round"])
    assert (issued.groupby(["rules", "scheme", "round"]).seed.nunique() == 10).all()
    for key, rows in issued[issued.rules == "paper"].groupby(["scheme", "round"]):
        if key in shown.index:
            error = rows.fairness_gap.std() * (1 / 10 - 1 / 20) ** 0.5
            assert abs(rows.fairness_gap.mean() - shown.fairness_gap[key]) < 5 * error + 1e-6, key
