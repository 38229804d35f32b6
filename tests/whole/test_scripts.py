"""Scripts of results/ and benchmarks/ still find what they import; issued tables follow from issued curves."""

import importlib.util
import json
import re
from pathlib import Path

import pandas
import pytest

from simfl.compression.base import COMPRESSIONS
from simfl.core.registration.family_index import undone

HERE = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*HERE.glob("results/*/*.py"), *HERE.glob("benchmarks/*.py"), *HERE.glob("docs/pictures/*.py")])


def imported(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)
    found = importlib.util.spec_from_file_location(f"script_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_script_finds_what_it_imports(path, monkeypatch):
    with undone():
        assert imported(path, monkeypatch).__doc__


@pytest.mark.parametrize(
    "path", sorted(HERE.glob("results/*/*.py")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_a_script_is_short_and_has_the_options_of_all_studies(path):
    text = path.read_text()
    assert text.count("\n") <= 150
    own = set(re.findall(r"add_argument\(.--(seeds|finished|cost)\b", text))
    assert own == {"plain": {"seeds"}, "fairness_limits": {"seeds"}, "threshold": {"seeds"}, "tables": {"cost"}}.get(
        path.stem, set()
    ), "simfl.experiments.runner has them"
    assert 'add_argument("--shard' not in text or "Shard.parse" in text


def test_basecagg_is_as_accurate_as_fedbuff(monkeypatch):
    """Issued tables of arXiv 2110.02177: the differences follow from the curves, and none is above half a point."""
    folder = HERE / "results" / "basecagg"
    script = imported(folder / "basecagg.py", monkeypatch)
    issued = pandas.read_csv(folder / "differences.csv")
    pandas.testing.assert_frame_equal(issued, script.differences(pandas.read_csv(folder / "curves.csv")), rtol=1e-4)
    assert (issued["seeds"] >= 5).sum() >= 2 and (issued[["lower", "upper", "largest"]].abs() < 0.5).all(axis=None)
    scale = pandas.read_csv(folder / "scales.csv").groupby(["network", "exponent"]).mean()
    perceptron = scale.loc["perceptron", "test_accuracy"]
    assert perceptron.idxmax() not in (0, 2, 28, 30), "both ends fail"
    assert perceptron[[0, 30]].max() < perceptron[16] - 2
    assert not scale.loc["perceptron", "wrapped"].loc[:24].any() and scale.loc["perceptron", "wrapped"][30] > 10**5


def test_the_cost_model_is_the_one_that_was_checked(monkeypatch):
    """Planted costs are found again; issued checks follow from issued coefficients, of sizes that were not fitted."""
    script = imported(HERE / "benchmarks" / "scale.py", monkeypatch)
    rows = [[1, n, n * t] for n, t in ((10, 1), (20, 5), (50, 2), (80, 9), (30, 30))]
    values = [0.5 + 0.02 * n + 3e-4 * nt for _, n, nt in rows]
    assert script.fit(rows, values) == pytest.approx([0.5, 0.02, 3e-4])
    folder = HERE / "results" / "scale"
    models = json.loads((folder / "runs.json").read_text())
    checks = pandas.read_csv(folder / "runs_checks.csv")
    assert len(checks) == 3 * sum(len(checked) for _, checked in script.RUNS.values())
    for row in checks.itertuples():
        size = tuple(int(float(part)) for part in row.size.split(" x "))
        assert size in script.RUNS[row.what][1] and size not in script.RUNS[row.what][0]
        told = script.told(models[row.what], row.what, size)[row.quantity]
        assert told == pytest.approx(row.model, rel=2e-3)
        assert float(row.error.rstrip("%")) / 100 == pytest.approx(row.model / row.measured - 1, abs=2e-3)


POLICIES = HERE / "results" / "policies"


OTHERS = {
    ("privacy accounting", "Flower"): "Rényi (clients)",  # flwr.serverapp.RdpAccountant
    ("buffered asynchronous training", "FLGo"): "yes",  # flgo 0.4.4, algorithm/fedbuff.py: (1 + staleness) ** -0.5
    ("deployment on real devices", "FedScale"): "Android",  # fedscale/edge/android
    ("data sets with a loader", "FLGo"): "images, text, graphs, tables, time series",  # flgo/benchmark
    ("data sets with a loader", "APPFL"): "torchvision, torchaudio, Hugging Face, LEAF",  # appfl 1.12.0, loader.py
    ("simulated clock", "FedScale"): "yes",  # cloud/aggregation: global_virtual_clock, async_aggregator.py has a heap
    ("availability of devices", "FLGo"): "models and traces",  # flgo 0.4.4, simulator/phone_simulator.py
    ("deployment on real devices", "FLGo"): "yes (ZeroMQ)",  # flgo 0.4.4, algorithm/realbase.py
    ("secure aggregation that is really computed", "FLGo"): "Paillier (FedMF)",  # flgo 0.4.4, algorithm/fedmf.py
    ("many GPUs", "FLGo"): "yes (one machine)",  # flgo 0.4.4, algorithm/fedbase.py: update_device, client by client
}
"""Cells about other simulators that were wrong once, with what shows that they are right."""


def test_the_readme_says_of_other_simulators_what_they_have():
    lines = [line for line in (HERE / "README.md").read_text().splitlines() if line.startswith("| ")]
    head = next(line for line in lines if "pfl-research" in line).strip("|").split("|")
    column = {name.strip(): place for place, name in enumerate(head)}
    rows = {cells[0].strip(): cells for line in lines if len(cells := line.strip("|").split("|")) == len(head)}
    for (row, name), cell in OTHERS.items():
        assert rows[row][column[name]].strip() == cell, (row, name)


@pytest.mark.parametrize(("data", "dimension"), [("mnist", 50890), ("cifar10", 62006)])
def test_the_page_on_compression_shows_its_tables(data, dimension, monkeypatch):
    """MNIST's line by line; updates are as long as their code says, and guarantees stay where codes tell nothing."""
    script = imported(HERE / "results" / "compression" / "compression.py", monkeypatch)
    table = pandas.read_csv(HERE / "results" / "compression" / f"{data}.csv")
    page = (HERE / "results" / "compression" / "README.md").read_text()
    assert data != "mnist" or script.markdown(table) in page
    curves = pandas.read_csv(HERE / "results" / "compression" / f"{data}_curves.csv").groupby("compression").last()
    for row in table.itertuples():
        size = COMPRESSIONS.of(script.COMPRESSIONS[row.compression]).size_bytes(dimension)
        assert abs(row.up_kb * 1000 - size) < 0.1
        assert abs(row.up_mb - curves.up_mb[row.compression]) < 1e-3
        assert row.semi_strong == (4 if row.compression.startswith(("none", "random_k")) else 1)


@pytest.mark.parametrize(
    "table", ["guarded/guarded.csv", "selection/mnist.csv", "selection/cifar10.csv"], ids=lambda table: table[:-4]
)
def test_a_page_shows_its_published_table(table, monkeypatch):
    """Line by line, from the table's numbers; policies with units or a guard keep their guarantee."""
    path = HERE / "results" / table
    script = imported(path.parent / f"{path.parent.name}.py", monkeypatch)
    issued = pandas.read_csv(path)
    page = (path.parent / "README.md").read_text()
    assert path.stem == "cifar10" or script.markdown(issued) in page
    T = issued["T"] if "T" in issued else issued["policy"].str.extract(r"T = (\d+)")[0].astype(float)
    promised = issued["policy"].str.contains("batch|half|guarded")
    assert promised.any() and (issued["semi_strong"] == T)[promised].all()
    assert (issued["seeds"] == 5).all() and (issued["strong"] <= issued["weak"]).all()


@pytest.mark.slow
def test_the_readmes_picture_is_current(monkeypatch, tmp_path):
    """Run again with two seeds, on whatever processor: the same guarantees and times, accuracies within two points."""
    script = imported(POLICIES / "policies.py", monkeypatch)
    keys = ["world", "selection", "seed"]
    stored = pandas.read_csv(POLICIES / "seeds.csv").set_index(keys)
    monkeypatch.setattr(script, "HERE", tmp_path)
    monkeypatch.setattr("sys.argv", ["policies.py", "--replications", "2", "--out", str(tmp_path)])
    script.main()
    again = pandas.read_csv(tmp_path / "seeds.csv").set_index(keys)
    stored = stored.loc[again.index]
    assert len(again) == 2 * 2 * len(script.POLICIES)
    assert (again.privacy_semi_strong == stored.privacy_semi_strong).all()
    assert (again.test_accuracy - stored.test_accuracy).abs().max() < 0.02
    assert (again.time_s / stored.time_s - 1).abs().max() < 1e-6


@pytest.mark.parametrize("line", ["own", "shared"])
def test_simulated_against_real_rounds_follows_from_the_issued_rounds(line):
    folder = HERE / "results" / "reality" / ("shared" if line == "shared" else ".")
    rounds, summary = (pandas.read_csv(folder / name) for name in ("reality.csv", "summary.csv"))
    assert len(summary) == 6 and set(summary["rule"]) == {"fedavg", "fedbuff"}
    compared = rounds[~rounds["calibrated_on"]].groupby(["rule", "repeat"])
    for row in summary.itertuples():
        part = compared.get_group((row.rule, row.repeat)).filter(like="_s")
        mean, upper = part.mean(), part.quantile(0.9)
        assert len(part) == row.rounds == 40
        errors = {"simulated_s": (row.mean_error, row.p90_error)}
        if line == "shared":
            errors["unaware_s"] = (row.unaware_mean_error, row.unaware_p90_error)
        for name, (mean_error, upper_error) in errors.items():
            assert mean[name] / mean["real_s"] - 1 == pytest.approx(mean_error, abs=2e-3)
            assert upper[name] / upper["real_s"] - 1 == pytest.approx(upper_error, abs=2e-3)


def test_means_of_differential_privacy_by_policy_are_those_of_their_runs():
    folder = HERE / "results" / "dp"
    means, seeds = (pandas.read_csv(folder / f"{name}.csv") for name in ("policies", "policies_seeds"))
    found = seeds.groupby("policy", sort=False)
    assert list(found.groups) and found.size().tolist() == means.seeds.tolist()
    for name in seeds.columns.difference(["policy", "seed"]):
        assert found[name].mean()[means.policy].round(4).tolist() == means[name].tolist(), name
