"""Figures: what is drawn is what the tables hold, the CSV is what is drawn, the same results give the same bytes."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from scipy.stats import t

from simfl.api.functions import compare
from simfl.cli import simfl
from simfl.core.columns import Column
from simfl.core.errors import IntegrityError, SimflError
from simfl.experiments.compare.differences import difference_rows
from simfl.report import draw, read_study, style
from simfl.report.axes import labels, varying, words
from simfl.report.figures import FIGURES, NothingToDraw
from simfl.report.figures.latency import _direct, _layout, _network
from simfl.report.figures.participation import blocks
from simfl.report.measures import POINTS, interval, over_rounds, over_time
from simfl.report.plugin_figures import _figures
from simfl.report.saving import FORMATS, csv_text, picture
from simfl.report.study import Run
from simfl.report.style import DASHES, SERIES
from simfl.results.folder import ResultsFolder
from tests.support.damages import reseal, reseal_sweep

pytestmark = pytest.mark.usefixtures("sweeps_here")

# -- what is read ----------------------------------------------------------------------------------


def test_a_comparison_is_read_with_its_names_order_and_baseline(comparison):
    study = read_study([comparison])
    assert study.kind == "comparison" and study.axes == ("selection",) and study.choosable
    assert [group.label for group in study.groups] == ["random", "batch_partition:T=2", "partition"]
    assert [[run.seed for run in group.runs] for group in study.groups] == [[0, 1, 2]] * 3
    assert study.baseline == "random"
    assert study.target == json.loads((comparison / "comparison.json").read_text())["target_accuracy"]


def test_runs_without_an_index_say_themselves_in_what_they_differ(comparison):
    study = read_study([comparison.parent])
    assert study.axes == ("selection",)
    assert {group.label for group in study.groups} == {"random", "batch_partition", "partition"}
    assert {len(group.runs) for group in study.groups} == {3}


def test_one_folder_is_a_run_and_its_seeds_are_replications(comparison, single):
    assert read_study([single]).kind == "run"
    runs = [run.path for run in read_study([comparison]).groups[0].runs]
    assert read_study(runs).kind == "replications" and read_study([runs[0], runs[0]]).kind == "run"


def test_failed_and_vanished_members_are_kept_in_the_table_only(comparison, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(comparison.parent, folder)
    index = pandas.read_csv(folder / comparison.name / "index.csv", dtype=str)
    index.loc[0, ["status", "error"]] = "failed", "it <b>broke</b>"
    index.to_csv(folder / comparison.name / "index.csv", index=False)
    reseal_sweep(folder / comparison.name)
    shutil.rmtree(folder / index.digest[4])
    study = read_study([folder / comparison.name])
    assert sum(1 for _ in study.runs) == 7 and len(study.members) == 9
    assert [m.status for m in study.members].count("gone") == 1
    assert [m.error for m in study.members if m.status == "failed"] == ["it <b>broke</b>"]


def test_what_is_no_result_is_said_in_one_line(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(SimflError, match="no "):
            read_study([path])
    (tmp_path / "index.csv").write_text("a,b\n1,2\n")
    with pytest.raises(IntegrityError, match="contents.json: gone"):
        read_study([tmp_path])
    reseal_sweep(tmp_path)
    with pytest.raises(SimflError, match="no column digest"):
        read_study([tmp_path])
    (tmp_path / "index.csv").write_text("digest,seed,status\n../../etc,0,done\n")
    reseal_sweep(tmp_path)
    with pytest.raises(SimflError, match="no digest"):
        read_study([tmp_path])


def test_axes_fold_the_fields_of_a_plugin_into_its_name():
    def scenario(seed, lr, **selection):
        return {"name": "x", "seed": seed, "selection": selection, "training": {"learning_rate": lr, "batch_size": 3}}

    axes, values = varying([
        scenario(1, 0.1, name="random", k=4),
        scenario(2, 0.1, name="batch", k=4, T=2, mode="fair"),
        scenario(3, 0.2, name="batch", k=4, T=4, mode="fair"),
    ])  # fmt: skip
    assert axes == ("selection", "training.learning_rate")
    assert labels(axes, values) == [
        "random / learning_rate=0.1", "batch:T=2 / learning_rate=0.1", "batch:T=4 / learning_rate=0.2"
    ]  # fmt: skip
    jitter = {"name": "e", "mean": 1}
    axes, values = varying([{"a": {"name": "x", "b": None}}, {"a": {"name": "x", "b": jitter}}, {"a": {"name": "y"}}])
    assert axes == ("a",) and [value["a"] for value in values] == ["x:b=null", "x:b.name=e,b.mean=1", "y"]
    axes, values = varying([{"a": {"b": None}}, {"a": {"b": jitter}}, {"a": {}}])
    assert axes == ("a.b",) and [value["a.b"] for value in values] == ["null", "e", ""]
    assert labels(["a.rate", "b.rate"], [{"a.rate": "1", "b.rate": "true"}]) == ["a.rate=1 / b.rate=true"]


def test_python_objects_are_called_by_their_own_names():
    def scenario(model):
        return {"learning": {"model": model, "data": {"name": "digits", "test_fraction": 0.2}}}

    def handed(thing, mark):
        return {"name": "python", "object": thing, "handed_in": True, "fingerprint": mark, "folder": None}

    def called(*models):
        axes, values = varying([*map(scenario, models)])
        assert axes == ("learning.model",)
        return words(axes, values)

    mlp, net = {"name": "mlp", "hidden": [64]}, handed("Net", "ba1f04a39a2b4a1c")
    assert called(mlp, net) == ["model=mlp", "model=Net"]
    assert called(net, handed("Wide", "0123456789abcdef")) == ["model=Net", "model=Wide"]
    assert called(mlp, net, handed("Net", "0123456789abcdef")) == ["model=mlp", "model=Net#ba1f", "model=Net#0123"]
    named = {"name": "python", "object": "mine:Net", "handed_in": False, "fingerprint": "77", "folder": "src"}
    assert called(net, named) == ["model=Net", "model=mine:Net"]


# -- statistics --------------------------------------------------------------------------------------


def test_intervals_are_students():
    found = interval([1.0, 2.0, 4.0, None, float("nan")])
    half = t.ppf(0.975, 2) * np.std([1, 2, 4], ddof=1) / np.sqrt(3)
    assert (found.estimate, found.count) == (pytest.approx(7 / 3), 3) and found.half_width == pytest.approx(half)
    assert np.isnan(interval([5.0]).half_width) and interval([]).count == 0


def test_paired_differences_use_the_common_seeds_only():
    ours = {"a": {0: 1.0, 1: 5.0, 2: 9.0, 7: 100.0}, "b": {5: 1.0}}
    ((label, row),) = difference_rows(ours, {2: 8.0, 1: 4.0, 0: 0.0, 9: -50.0}, False)
    assert (label, row["difference"], row["lower"], row["upper"], row["pairs"]) == ("a", 1.0, 1.0, 1.0, 3)


def test_paired_differences_agree_with_compare(comparison):
    _, table = draw("differences", comparison)
    stored = pandas.read_csv(comparison / "paired.csv").set_index(["choice", "metric"])
    assert len(table) == 2 * 4
    for row in table.itertuples():
        there = stored.loc[(row.group, row.measure)]
        assert row.difference == pytest.approx(there.difference)
        assert row.half == pytest.approx((there.upper - there.lower) / 2)


class FakeRun:
    def __init__(self, seed=0, **columns):
        self.seed = seed
        self.rounds = pandas.DataFrame(columns)
        self.columns = {}


class FakeGroup:
    label = "random"

    def __init__(self, *runs):
        self.runs = runs


def test_over_rounds_holds_the_last_value_and_starts_where_all_have_one():
    nan = float("nan")
    group = FakeGroup(
        FakeRun(round=range(4), loss=[nan, 2.0, nan, 4.0]),
        FakeRun(7, round=range(5), loss=[1.0, nan, 3.0, nan, 9.0]),
    )
    table = over_rounds(group, "loss")
    assert list(table["round"]) == [1, 2, 3] and list(table["mean"]) == [1.5, 2.5, 3.5]
    assert list(table["seed_0"]) == [2, 2, 4] and list(table["seed_7"]) == [1, 3, 3]


def test_over_rounds_ends_where_a_value_becomes_infinite():
    nan = float("nan")
    runs = FakeRun(round=range(4), a=[1.0, nan, 2.0, nan]), FakeRun(7, round=range(4), a=[5.0, 6.0, 7.0, 8.0])
    for run in runs:
        run.columns = {"a": Column("a", "A", "number", "A.", -1, "end")}
    table = over_rounds(FakeGroup(*runs), "a")
    assert list(table["round"]) == [0, 1, 2] and list(table["mean"]) == [3.0, 3.5, 4.5]
    for run in runs:
        run.columns = {"a": run.columns["a"]._replace(final="whole_sum")}  # each round has its own
    table = over_rounds(FakeGroup(*runs), "a")
    assert list(table["round"]) == [0, 2] and list(table["mean"]) == [3.0, 4.5]


def test_over_time_reads_steps_at_common_times():
    group = FakeGroup(
        FakeRun(time_s=[1.0, 3.0, 5.0], a=[10.0, 20.0, 30.0]), FakeRun(1, time_s=[2.0, 4.0], a=[0.0, 100.0])
    )
    table = over_time(group, "a")
    assert list(table.time_s) == [2.0, 3.0, 4.0] and list(table["mean"]) == [5.0, 10.0, 60.0]


def test_long_lines_are_thinned_but_keep_their_ends():
    table = over_rounds(FakeGroup(FakeRun(round=range(10_000), a=np.arange(10_000.0))), "a")
    assert len(table) <= POINTS and table["mean"].iloc[0] == 0 and table["mean"].iloc[-1] == 9999


# -- figures -----------------------------------------------------------------------------------------

LINES = {"accuracy": ("round", "test_accuracy"), "accuracy_time": ("time_s", "test_accuracy"),
         "fairness": ("round", "fairness_gap"), "cardinality": ("round", "mean_cardinality")}  # fmt: skip


def lines(fig):
    return [line for axes in fig.axes for line in axes.lines if str(line.get_gid()).startswith("group-")]


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_the_mean_of_the_runs_and_the_csv_is_the_line(comparison, name):
    study = read_study([comparison])
    fig, table = draw(name, study)
    drawn = {line.get_label(): line.get_xydata() for line in lines(fig) if not line.get_label().startswith("_")}
    assert list(drawn) == [group.label for group in study.groups]
    x, column = LINES[name]
    for group in study.groups:
        rows = table[table.group == group.label]
        np.testing.assert_array_equal(drawn[group.label], rows[[x, "mean"]])
        if x == "round":
            expected = np.mean([run.rounds[column] for run in group.runs], axis=0)
            np.testing.assert_allclose(rows["mean"], expected)
    thin = [line for axes in fig.axes for line in axes.lines if str(line.get_gid()).startswith("thin-")]
    seeds = [table[table.group == g.label][f"seed_{run.seed}"] for g in study.groups for run in g.runs]
    assert len(thin) == len(seeds) == 9 and not any(axes.collections for axes in fig.axes)
    for line, expected in zip(thin, seeds, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), expected)
        assert line.get_linewidth() < min(its.get_linewidth() for its in lines(fig) if its not in thin)


def test_from_five_seeds_on_the_interval_is_a_band(comparison):
    """Of fewer, Student's t (12.7 of two seeds) fills the figure."""
    study = read_study([comparison])
    for seeds in (4, 5):
        runs = study.groups[0].runs + study.groups[1].runs  # stand in for more seeds
        group = replace(study.groups[0], runs=tuple(_with_seed(run, seed) for seed, run in enumerate(runs[:seeds])))
        fig, table = draw("accuracy", replace(study, groups=(group,)))
        bands = [c for axes in fig.axes for c in axes.collections]
        thin = [line for axes in fig.axes for line in axes.lines if str(line.get_gid()).startswith("thin-")]
        assert (len(bands), len(thin)) == ((1, 0) if seeds == 5 else (0, 4))
        assert [name for name in table if name.startswith("seed_")] == [f"seed_{i}" for i in range(len(thin))]
    edges = np.concatenate([path.vertices for path in bands[0].get_paths()])
    assert set(np.round(table.low, 9)) | set(np.round(table.high, 9)) <= set(np.round(edges[:, 1], 9))


def _with_seed(run, seed):
    return Run(ResultsFolder(run.path, run.summary | {"seed": seed}))


def test_a_single_run_is_drawn_as_recorded(single):
    study = read_study([single])
    (run,) = study.runs
    fig, table = draw("privacy", study)
    for line, column in zip(fig.axes[0].lines, ("strong", "semi_strong", "weak_lower"), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), run.rounds[f"privacy_{column}"])
        assert line.get_drawstyle() == "steps-post"
    fig, table = draw("loss", study)
    known = run.rounds.dropna(subset="train_loss")
    np.testing.assert_array_equal(table[table.loss == "train_loss"]["mean"], known.train_loss)


def test_the_open_weak_guarantee_is_a_band(single, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    rounds = pandas.read_csv(folder / "rounds.csv")
    rounds["privacy_weak_lower"], rounds["privacy_weak_upper"] = 2, 5
    rounds.to_csv(folder / "rounds.csv", index=False)
    reseal(folder)
    fig, table = draw("privacy", folder)
    weak = table[table.notion == "privacy_weak_lower"]
    assert (weak["mean"] == 2).all() and (weak["upper"] == 5).all()
    assert any({2.0, 5.0} <= set(c.get_paths()[0].vertices[:, 1]) for c in fig.axes[0].collections)


def test_the_heat_map_is_the_participation_matrix(single):
    study = read_study([single])
    fig, table = draw("participation", study)
    matrix = next(study.runs).participation.toarray()
    np.testing.assert_array_equal(table.filter(like="round_").to_numpy(), matrix.T)
    image = fig.axes[0].images[0].get_array()
    np.testing.assert_array_equal(image[..., 3] > 0, matrix.T > 0)


def test_blocks_of_a_large_matrix_are_means():
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    dense = (rng.random((103, 37)) < 0.2) * rng.random((103, 37))
    cells, high, wide = blocks(csr_array(dense), 200)
    assert cells.size <= 200 and cells.shape == (-(-103 // high), -(-37 // wide))
    for i, j in ((0, 0), (1, 2), (cells.shape[0] - 1, cells.shape[1] - 1)):
        assert cells[i, j] == pytest.approx(dense[i * high : (i + 1) * high, j * wide : (j + 1) * wide].mean())


def test_the_timeline_tells_who_kept_whom_waiting(single):
    fig, table = draw("timeline", single)
    rounds = table[table.activity == "round"]
    assert len(rounds) == 3 and (rounds.client == -1).all()
    for activity in ("download", "compute", "upload", "wait"):
        assert (table.activity == activity).any()
    events = [json.loads(line) for line in (single / "events.jsonl").read_text().splitlines()]
    arrivals = {e["arrives_s"]: e["from"] for e in events if e["event"] == "message" and e["to"] == -1}
    ends = [e["time_s"] for e in events if e["event"] == "round_end" and e["cardinality"]][:3]
    np.testing.assert_allclose(rounds.end_s, ends)
    texts = [text.get_text().strip() for text in fig.axes[0].texts]
    assert texts == [f"last: client {arrivals[end]}" for end in ends]


def test_staleness_is_counted_over_aggregated_jobs(single, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    (folder / "jobs.csv").write_text(
        "job,client,version,started_s,ended_s,outcome,round,staleness\n"
        "1,0,0,0,1,aggregated,0,0\n2,1,0,0,1,aggregated,1,2\n3,2,0,0,1,aggregated,1,2\n4,3,0,0,1,failed,,\n"
    )
    reseal(folder, "jobs.csv")
    fig, table = draw("staleness", folder)
    assert list(table.updates) == [1, 0, 2] and table.share.sum() == pytest.approx(1)
    assert [bar.get_height() for bar in fig.axes[0].patches] == list(table.share)


def test_the_latency_graph_of_a_star_has_true_distances(single):
    run = next(read_study([single]).runs)
    network = _network(run.latency, [""] * run.clients)
    assert sorted(map(tuple, network.links)) == [(i, 12) for i in range(12)] and network.names[-1] == "server"
    places = _layout(network)
    np.testing.assert_allclose(np.linalg.norm(places, axis=1), network.latency_s[12])
    _, table = draw("latency", single)
    assert set(table.to) == {"server"} and len(table) == 12


def test_links_are_where_no_detour_is_as_fast():
    rng = np.random.default_rng(1)
    links = {(i, i + 1): rng.uniform(1, 2) for i in range(6)} | {(0, 6): 1.5}  # a ring of 7
    distance = np.full((7, 7), np.inf)
    np.fill_diagonal(distance, 0)
    for (i, j), value in links.items():
        distance[i, j] = distance[j, i] = value
    for k in range(7):
        distance = np.minimum(distance, distance[:, [k]] + distance[[k]])
    kept = {link for link in links if links[link] <= distance[link]}
    assert set(map(tuple, _direct(distance).tolist())) == kept


def test_labels_are_those_that_the_learner_trains_on(single):
    from simfl.core.rng import Streams
    from simfl.scenario import Scenario

    scenario = Scenario.load(single / "scenario.yaml")
    learner = scenario.learning.build(scenario, Streams(scenario.seed))
    _, table = draw("labels", single)
    counts = table.drop(columns="client").to_numpy()
    np.testing.assert_array_equal(counts.sum(axis=1), learner.samples)
    assert counts.sum() == len(learner.data.y_train)
    first = learner.data.y_train[learner.partition[3]]
    np.testing.assert_array_equal(counts[3], np.bincount(first, minlength=10))


def test_a_sweep_is_drawn_against_its_number(tmp_path_factory):
    from tests.conftest import played

    out = tmp_path_factory.mktemp("sweep")
    rates = (0.02, 0.05, 0.2)
    for rate in rates:
        for seed in (0, 1):
            played(out, [f"seed={seed}", f"training.learning_rate={rate}", "training.rounds=3", "privacy=none"])
    study = read_study([out / "sample"])
    assert study.kind == "sweep" and study.numeric_axes == ("training.learning_rate",)
    _, table = draw("effect", study)
    assert list(table["training.learning_rate"]) == list(rates)
    expected = [np.mean([run.summary["test_accuracy"] for run in group.runs]) for group in study.groups]
    np.testing.assert_allclose(table.test_accuracy, expected)
    with pytest.raises(NothingToDraw, match="privacy: none"):
        draw("privacy", study)


def test_every_group_looks_different_in_colour_and_in_grey():
    looks = [(style.look(i)["color"], str(style.look(i)["linestyle"])) for i in range(len(SERIES) * len(DASHES))]
    assert len(set(looks)) == len(looks)
    assert all(style.look(i)["linestyle"] != style.look(i + 1)["linestyle"] for i in range(20))


def test_a_group_has_one_colour_in_all_figures(comparison):
    study = read_study([comparison])
    colours = {}
    for name in ("accuracy", "accuracy_time", "loss", "privacy", "fairness", "cardinality"):
        for line in lines(draw(name, study)[0]):
            colours.setdefault(line.get_gid(), set()).add(line.get_color())
    assert len(colours) == 3 and all(len(found) == 1 for found in colours.values())


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_results_give_the_same_bytes(comparison, single, format):
    for name, source in (("accuracy", comparison), ("participation", single), ("timeline", single)):
        files = []
        for _ in range(2):
            fig, table = draw(name, source)
            with style.settings():
                files.append((picture(fig, format), csv_text(table)))
        assert files[0] == files[1]
        assert not any(word in files[0][0] for word in (b"CreationDate", b"ModDate", b"<dc:date>", b"tIME"))


def test_users_settings_change_nothing(single):
    import matplotlib

    with style.settings():
        expected = picture(draw("accuracy", single)[0], "svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "other"}):
        fig, _ = draw("accuracy", single)
        with style.settings():
            assert picture(fig, "svg") == expected
        assert matplotlib.rcParams["font.size"] == 30


# -- the command -------------------------------------------------------------------------------------


def test_plot_writes_the_figure_and_its_csv(comparison, tmp_path):
    target = tmp_path / "privacy.pdf"
    done = CliRunner().invoke(simfl, ["plot", str(comparison), "--figure", "privacy", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_bytes().startswith(b"%PDF") and b"Type3" not in target.read_bytes()
    table = pandas.read_csv(tmp_path / "privacy.csv")
    pandas.testing.assert_frame_equal(table, draw("privacy", comparison)[1], check_dtype=False)
    column = ["--width", "column", "--font", "serif"]
    done = CliRunner().invoke(
        simfl, ["plot", str(comparison), "--figure", "accuracy", "-o", f"{tmp_path}/a.svg", *column]
    )
    assert done.exit_code == 0 and 'width="244.8pt"' in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "acuracy", "-o", "x.pdf"], "did you mean 'accuracy'"),
        (["--figure", "accuracy", "-o", "x.docx"], "must end in .pdf, .svg or .png"),
        (["--figure", "staleness", "-o", "x.pdf"], "no run was asynchronous"),
    ],
)
def test_plot_says_what_is_wrong(single, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(simfl, ["plot", str(single), *arguments])
    assert done.exit_code == 2 and message in done.output and not list(tmp_path.iterdir())


def test_plot_looks_at_the_figure_s_name_before_the_results(tmp_path):
    words = ["plot", str(tmp_path / "nowhere"), "-o", str(tmp_path / "x.pdf"), "--figure"]
    done = CliRunner().invoke(simfl, [*words, "acuracy"])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("no figure 'acuracy'; did you mean 'accuracy'?")
    assert CliRunner().invoke(simfl, [*words, "accuracy"]).stderr == f"{tmp_path}/nowhere: no such folder\n"


def test_every_figure_has_a_caption_and_a_place():
    sections = {"Learning", "Privacy", "Attacks", "Participation", "Time", "Plugins"}
    assert {kind.section for kind in FIGURES.values()} == sections
    assert all(kind.caption and kind.title for kind in FIGURES.values())


def test_a_figure_of_a_plugin_file_is_drawn_where_the_file_is_named(tmp_path, monkeypatch):
    """Figures of docs/how-to/extend-measures.md: the results name the file, which only ``--plugin`` executes."""
    from simfl.report.figures.base import FIGURES
    from tests.conftest import played

    text = (Path(__file__).parents[2] / "docs/how-to/extend-measures.md").read_text()
    code = text.split("# traffic.py\n")[1].split("```")[0]
    (tmp_path / "traffic.py").write_text(code.replace("traffic", "traffic_of_a_test"))
    (tmp_path / "empty.py").write_text("")
    run = played(tmp_path, ["training.rounds=2", "privacy=none", f"plugins=[{tmp_path / 'empty.py'}]"])
    for name in [name for name in sys.modules if name.startswith("simfl_plugin_")]:
        monkeypatch.delitem(sys.modules, name)  # another process has executed it
    plot = ["plot", str(run), "--figure", "traffic_of_a_test", "-o", str(tmp_path / "x.svg")]
    refused = CliRunner().invoke(simfl, plot)
    assert refused.exit_code == 2 and "--plugin" not in refused.output, "the file brings no such figure"
    (tmp_path / "empty.py").write_text((tmp_path / "traffic.py").read_text() + "\n# not executed before\n")
    refused = CliRunner().invoke(simfl, plot)
    assert refused.exit_code == 2 and "--plugin FILE" in refused.output and "empty.py" in refused.output
    misspelt = CliRunner().invoke(simfl, [*plot[:3], "acuracy", *plot[4:]])
    assert misspelt.exit_code == 2 and "--plugin" not in misspelt.output
    report = ["report", str(run), "-o", str(tmp_path / "x.html")]
    assert "--plugin FILE" in CliRunner().invoke(simfl, report).output
    named = ["--plugin", str(tmp_path / "traffic.py")]
    try:
        assert CliRunner().invoke(simfl, [*plot, *named]).exit_code == 0 and (tmp_path / "x.csv").exists()
        assert CliRunner().invoke(simfl, [*report, *named]).exit_code == 0
        assert 'aria-label="Traffic. Bytes sent in the whole run."' in (tmp_path / "x.html").read_text()
    finally:
        FIGURES.pop("traffic_of_a_test", None)
    broken = CliRunner().invoke(simfl, [*plot, "--plugin", str(tmp_path / "none.py")])
    assert broken.exit_code == 2 and "none.py cannot be read" in broken.output


def test_a_notebook_shows_a_figure_without_a_magic_line(single):
    """As IPython's formatters see a cell's result."""
    formatters = pytest.importorskip("IPython.core.formatters")
    fig, _ = draw("accuracy", single)
    shown, _ = formatters.DisplayFormatter().format(fig)
    png = shown["image/png"]
    width_px = int.from_bytes(png[16:20], "big")
    assert png.startswith(b"\x89PNG") and width_px == pytest.approx(150 * fig.get_figwidth(), abs=2)


@pytest.mark.parametrize("line", ['@figure("mine", "T", "Time")', "@figures.figure(\n    'mine', 'T', 'Time')",
                                  '@figure(name="mine", title="T", section="Time")'])  # fmt: skip
def test_a_plugin_file_s_figures_are_known_from_its_text(tmp_path, line):
    (tmp_path / "p.py").write_text(f"raise SystemExit  # never executed\n{line}\ndef draw(study): ...\n")
    assert _figures(tmp_path / "p.py") == {"mine"}


def test_fronts_are_drawn_within_a_world(tmp_path):
    """Brute force over the table that is drawn: nobody is beaten by a point of another world."""
    devices = [{"name": "bernoulli", "dropout": dropout} for dropout in (0.1, 0.5)]
    policies = ["random", "batch_partition:T=2", "batch_partition:T=4"]
    grid = {"selection": policies, "devices.availability": devices, "training.rounds": 6}
    path = compare("quickstart", grid, replications=1, out=tmp_path, progress=False, jobs=1).path
    _, table = draw("pareto", path)
    better = {"test_accuracy": 1, "privacy_weak_lower": 1, "time_s": -1}
    points = table[[*better]].to_numpy() * [*better.values()]
    assert table["world"].nunique() == 2 and len(table) == 6
    for i, (world, is_front) in enumerate(zip(table["world"], table["front"], strict=True)):
        rivals = points[(table["world"] == world).to_numpy()]
        beaten = ((rivals >= points[i]).all(axis=1) & (rivals > points[i]).any(axis=1)).any()
        assert is_front == (not beaten)
