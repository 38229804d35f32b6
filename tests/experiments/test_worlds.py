"""World against choice: everything is compared inside the world that it met, and pooled over worlds."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from simfl.api.functions import open as simfl_open
from simfl.cli import simfl
from simfl.core.column_files import columns_by_name
from simfl.core.errors import SimflError
from simfl.experiments.compare.comparison import configurations
from simfl.experiments.compare.table_choice import in_order
from simfl.experiments.compare.worlds import pooled_rows, world_keys
from simfl.experiments.sweep.grid import Axis, case_axis, parse
from simfl.report import draw
from simfl.report.html_page import advise_worlds, page, rankings
from simfl.report.page_tables import group_table
from simfl.report.study import Group, Study
from simfl.report.study_reader import read_study

pytestmark = pytest.mark.usefixtures("sweeps_here")

AXES = parse(["selection=random,batch_partition:T=2", "devices.availability.dropout=0.1,0.5", "network.jitter_s=0,1"])


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_what_no_server_decides_is_the_world():
    assert world_keys(AXES) == ["devices.availability.dropout", "network.jitter_s"]
    assert world_keys(AXES[1:]) == [], "worlds themselves are compared where nothing else varies"
    assert world_keys(AXES, choice=["network.jitter_s"]) == ["devices.availability.dropout"]
    assert world_keys(AXES[1:], choice=["network.jitter_s"]) == ["devices.availability.dropout"]
    both = parse(["selection=random,weighted", "training.rounds=2,4"])
    assert world_keys(both) == [] and world_keys(both, world=["training.rounds"]) == ["training.rounds"]
    with pytest.raises(SimflError, match=r"training.round: does not vary.*training.rounds"):
        world_keys(both, world=["training.round"])


def test_keys_that_move_together_and_cases_are_the_world_only_as_a_whole():
    together = [Axis("selection", ("random", "weighted"), "g"), Axis("clients", ("4", "8"), "g"), AXES[1]]
    assert world_keys(together) == ["devices.availability.dropout"]
    selection = AXES[0]
    for second, world in (("network.jitter_s=1", ["case"]), ("secagg=plain", [])):
        assert world_keys([selection, case_axis({"a": ["clients=4"], "b": [second]})]) == world


def test_configurations_have_a_name_inside_their_world():
    made = configurations(AXES[:2])
    assert [(each.label, each.world, each.choice) for each in made[:2]] == [
        ("random / 0.1", "devices.availability.dropout=0.1", "random"),
        ("random / 0.5", "devices.availability.dropout=0.5", "random"),
    ]
    assert {each.world for each in configurations(AXES[1:])} == {""}
    assert all(each.label == each.choice for each in configurations(AXES[1:]))


def test_pooled_effects_are_means_over_worlds_and_interactions_are_found():
    rng = np.random.default_rng(0)
    shift = {"a": 1.0, "b": 1.0, "c": 3.0}
    values = {(world, choice): rng.normal(size=8) + 2 * (choice == "other") * shift[world]
              for world in shift for choice in ("base", "other")}  # fmt: skip
    results = {place: {seed: {"x": value} for seed, value in enumerate(row)} for place, row in values.items()}
    (row,) = pooled_rows(results, "base", [("other", "x")], {})
    by_world = np.array([values[world, "other"] - values[world, "base"] for world in shift])
    expected = stats.ttest_1samp(by_world.mean(axis=0), 0)
    interval = expected.confidence_interval(0.95)
    assert (row["worlds"], row["pairs"]) == (3, 8)
    assert [row[name] for name in ("difference", "lower", "upper", "p_value")] == pytest.approx(
        [by_world.mean(), interval.low, interval.high, expected.pvalue]
    )
    pairs = [stats.ttest_rel(by_world[i], by_world[j]).pvalue for i, j in ((0, 1), (0, 2), (1, 2))]
    assert row["interaction_p_value"] == pytest.approx(3 * min(pairs)) and row["interaction_p_value"] < 0.05
    alike = {place: {seed: {"x": value[seed]} for seed in range(8)} for place, value in values.items()}
    for world in shift:
        for seed in range(8):
            alike[world, "other"][seed]["x"] = alike[world, "base"][seed]["x"] + values["a", "other"][seed]
    (row,) = pooled_rows(alike, "base", [("other", "x")], {})
    assert row["interaction_p_value"] == 1


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("worlds")
    words = ("compare quickstart selection=random,batch_partition:T=4,half_partition:T=4 learning=none "
             "devices.availability.dropout=0.1,0.5 training.rounds=6 --replications 5 --jobs 1 -q").split()  # fmt: skip
    done = CliRunner().invoke(simfl, [*words, "--out", str(out), "--baseline", "batch_partition:T=4"])
    assert done.exit_code == 0, done.output
    (folder,) = out.glob("quickstart/compare-*")
    return folder, done.output


def test_differences_stay_inside_a_world(compared):
    folder, text = compared
    runs = rows_of(folder / "index.csv")

    def mean(metric, choice, dropout):
        values = [float(row[metric]) for row in runs
                  if (row["selection"], row["devices.availability.dropout"]) == (choice, dropout)]  # fmt: skip
        assert len(values) == 5
        return np.mean(values)

    paired = rows_of(folder / "paired.csv")
    assert {(row["choice"], row["baseline"]) for row in paired} == {
        (f"{choice} / {dropout}", f"batch_partition:T=4 / {dropout}")
        for choice in ("random", "half_partition:T=4") for dropout in ("0.1", "0.5")
    }  # fmt: skip
    for row in paired:
        if row["metric"] in ("time_s", "mean_cardinality", "skipped"):
            (choice, dropout), (base, _) = row["choice"].split(" / "), row["baseline"].split(" / ")
            expected = mean(row["metric"], choice, dropout) - mean(row["metric"], base, dropout)
            assert float(row["difference"]) == pytest.approx(expected)
    checked = 0
    for row in rows_of(folder / "pooled.csv"):
        each = [p for p in paired if p["metric"] == row["metric"] and p["choice"].startswith(row["choice"])]
        assert len(each) == int(row["worlds"]) == 2
        if {p["pairs"] for p in each} == {row["pairs"]}:
            checked += 1
            assert float(row["difference"]) == pytest.approx(np.mean([float(p["difference"]) for p in each]))
    assert checked > 10
    assert text.count("world: devices.availability.dropout=") == 2
    assert text.count("difference to batch_partition:T=4") == 3 and "mean over 2 worlds" in text


def test_the_baseline_may_be_called_by_its_label_or_its_choice(compared):
    document = json.loads((compared[0] / "comparison.json").read_text())
    assert document["baseline"] == "batch_partition:T=4"
    done = CliRunner().invoke(
        simfl, "compare quickstart selection=random,weighted clients=8,12 --baseline weightd".split()
    )
    assert done.exit_code == 2 and "'weightd' is not compared; did you mean 'weighted'" in done.output
    assert read_study([compared[0]]).baseline == "batch_partition:T=4 / 0.1"


def test_the_report_says_in_how_many_worlds_a_choice_is_recommended(compared):
    study = read_study([compared[0]])
    worlds = study.worlds()
    assert [len(each.groups) for each in worlds.values()] == [3, 3] and all(w.choosable for w in worlds.values())
    sentences = advise_worlds(study)
    assert sum(text.startswith("In devices.availability.dropout=") for text in sentences) == 2
    assert "world" in sentences[0]


def test_what_was_spent_may_be_named(compared, tmp_path):
    """``--at time=1.5``: each run's last round that had ended by then, in a comparison of its own."""
    out = compared[0].parents[1]
    words = ("compare quickstart selection=random,batch_partition:T=4,half_partition:T=4 learning=none "
             "devices.availability.dropout=0.1,0.5 training.rounds=6 --replications 5 --jobs 1 -q "
             f"--baseline batch_partition:T=4 --out {out} --at time=1.5").split()  # fmt: skip
    done = CliRunner().invoke(simfl, words)
    assert done.exit_code == 0 and "at equal time: 1.5 s\n" in done.output, done.output
    (folder,) = (path for path in out.glob("quickstart/compare-*") if path != compared[0])
    runs = {row["digest"]: row for row in rows_of(folder / "index.csv")}
    rounds = {}
    for digest, row in runs.items():
        ends = [float(each["time_s"]) for each in rows_of(folder.parent / digest / "rounds.csv")]
        key = f"{row['selection']} / {row['devices.availability.dropout']}"
        rounds.setdefault(key, []).append(sum(end <= 1.5 for end in ends))
    found = {row["choice"]: float(row["mean"]) for row in rows_of(folder / "equal.csv")
             if (row["budget"], row["metric"]) == ("time", "rounds")}  # fmt: skip
    assert found == {key: pytest.approx(np.mean([n for n in each if n])) for key, each in rounds.items()}
    for wrong in ("tim=3", "bytes=0", "bytes=x", "all=3"):
        assert CliRunner().invoke(simfl, [*words[:-1], wrong]).exit_code == 2


def test_a_dry_run_says_what_is_left_and_runs_nothing(compared, tmp_path):
    words = "compare quickstart selection=random,partition learning=none --replications 3 --dry-run --out".split()
    done = CliRunner().invoke(simfl, [*words, str(tmp_path / "none")])
    assert done.exit_code == 0 and done.output.startswith("6 runs, 6 of them left; if each takes what the first does")
    assert not (tmp_path / "none").exists()


def test_shards_of_a_comparison_divide_its_runs(tmp_path):
    words = ("compare quickstart selection=random,partition learning=none training.rounds=3 --replications 2 "
             f"--jobs 1 -q --out {tmp_path} --shard").split()  # fmt: skip
    first = CliRunner().invoke(simfl, [*words, "1/2"])
    (folder,) = tmp_path.glob("quickstart/compare-*")
    assert sorted(row["status"] for row in rows_of(folder / "index.csv")) == ["done", "done", "open", "open"]
    second = CliRunner().invoke(simfl, [*words, "2/2"])
    assert (first.exit_code, second.exit_code) == (0, 0)
    whole = CliRunner().invoke(simfl, words[:-1])
    assert second.output == whole.output and {row["status"] for row in rows_of(folder / "index.csv")} == {"done"}


def test_several_comparisons_are_read_together(compared):
    """As ``simfl report results/NAME/compare-*`` names them: their runs, each once."""
    folders = sorted(compared[0].parent.glob("compare-*"))
    study = read_study([*folders, compared[0]])
    assert sum(len(group.runs) for group in study.groups) == len(rows_of(compared[0] / "index.csv")) == 30


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Two policies in two named worlds, ten seeds."""
    out = tmp_path_factory.mktemp("named")
    words = ("compare quickstart selection=random,partition world=memoryless,groups learning=none training.rounds=12 "
             "--replications 10 --jobs 1 --columns time_s,skipped --sort -time_s -q --out").split()  # fmt: skip
    done = CliRunner().invoke(simfl, [*words, str(out)])
    assert done.exit_code == 0, done.output
    (folder,) = out.glob("quickstart/compare-*")
    return folder, done.output, words


def times(folder):
    """Simulated seconds by seed, by choice and world."""
    found = {}
    for row in rows_of(folder / "index.csv"):
        found.setdefault((row["selection"], row["world"]), {})[row["seed"]] = float(row["time_s"])
    return found


def test_named_worlds_are_worlds_of_a_comparison(named):
    folder, text, _ = named
    document = json.loads((folder / "comparison.json").read_text())
    assert [(each["choice"], each["world"], each["name"]) for each in document["choices"]] == [
        ("random / memoryless", "memoryless", "random"), ("random / groups", "groups", "random"),
        ("partition / memoryless", "memoryless", "partition"), ("partition / groups", "groups", "partition"),
    ]  # fmt: skip
    assert "world: memoryless\n" in text and "mean over 2 worlds" in text
    for world, block in zip(("memoryless", "groups"), text.split("world: ")[1:], strict=True):
        means = {policy: np.mean([*times(folder)[policy, world].values()]) for policy in ("random", "partition")}
        assert [line.split()[0] for line in block.splitlines()[2:4]] == sorted(means, key=means.get, reverse=True)


def test_a_ranking_says_in_how_many_worlds_it_holds(named):
    """Student's paired test by scipy, at 5 % over the one pair and the six measures that advice claims of a world."""
    study = read_study([named[0]])
    verdicts = {}
    for world in ("memoryless", "groups"):
        ours, theirs = (times(named[0])[policy, world] for policy in ("partition", "random"))
        test = stats.ttest_rel([ours[seed] for seed in sorted(ours)], [theirs[seed] for seed in sorted(ours)])
        verdicts[world] = int(-np.sign(test.statistic)) if test.pvalue <= 0.05 / 6 else 0
    assert set(verdicts.values()) == {-1}, "the case that the sentence below is about"
    assert "partition against random: simulated time worse in 2 of 2" in "\n".join(rankings(study.worlds()))


def test_pages_mark_and_subtract_within_a_world(named):
    study = read_study([named[0]])
    table = group_table(study)
    column = [head.name for head in table.columns].index("time_s")
    best = {row.group.label for row in table.rows if row.cells[column].best}
    means = {key: np.mean([*its.values()]) for key, its in times(named[0]).items()}
    worlds = ("memoryless", "groups")
    assert best == {f"{min(('random', 'partition'), key=lambda p: means[p, w])} / {w}" for w in worlds}
    assert all(study.rival_baseline(group).label == f"random / {group.values['world']}" for group in study.groups)
    text = page(study)
    assert "and world is marked" in text and "<b>random</b> in the same world" in text
    assert "best mean:" not in text


def test_points_are_compared_within_a_panel_of_their_world(named, tmp_path):
    fig, table = draw("tradeoff", named[0])
    assert sorted(table["world"].unique()) == ["groups", "memoryless"]
    titles = [axes.get_title(loc="left") for axes in fig.axes if axes.get_title(loc="left")]
    assert titles == ["memoryless", "groups"] and len(fig.axes) % 2 == 0
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["random", "partition"]


def test_what_no_table_can_show_is_refused_before_any_run(tmp_path):
    words = "compare quickstart selection=random,weighted learning=none --replications 2 -q --out".split()
    for more, said in (("--columns tmie_s", "did you mean 'time_s'"), ("--sort -tmie_s", "did you mean 'time_s'"),
                       ("--where selection=randm", "did you mean 'random'"), ("--where seletion=random", "selection"),
                       ("--where selection=random --where selection=weighted", "given twice")):  # fmt: skip
        done = CliRunner().invoke(simfl, [*words, str(tmp_path / "none"), *more.split()])
        assert done.exit_code == 2 and said in done.output, done.output
        assert not (tmp_path / "none").exists()


def test_a_dry_run_of_a_shard_in_json(tmp_path):
    words = "compare quickstart selection=random,weighted learning=none training.rounds=3 --replications 5 --dry-run"
    done = CliRunner().invoke(simfl, [*words.split(), "--shard", "2/3", "--json", "--out", str(tmp_path)])
    cost = json.loads(done.output)
    assert (cost["runs"], cost["left"]) == (3, 3) and cost["run_s"] > 0 and cost["run_bytes"] > 0
    for more in ("--slurm x", f"--latex {tmp_path / 'x.tex'}"):
        assert CliRunner().invoke(simfl, [*words.split(), *more.split()]).exit_code == 2


def test_rows_are_ordered_by_their_means():
    means = {"a": 2.0, "b": None, "c": 3.0, "d": float("nan"), "e": 1.0}
    assert in_order(means, 1) == in_order(means, 0) == ["c", "a", "e", "b", "d"]
    assert in_order(means, -1) == in_order(means, 1, reverse=True) == ["e", "a", "c", "b", "d"]


def test_results_in_python_draw_and_pivot_by_keys(named):
    result = simfl_open(named[0])
    table = result.pivot("selection", "world", "time_s")
    for (policy, world), its in times(named[0]).items():
        assert float(table.loc[policy, world].split()[0]) == pytest.approx(np.mean([*its.values()]), rel=1e-3)
    assert result.pivot("selection", [], "time_s", where={"world": "groups"}).shape == (2, 1)
    drawn = result.figure("time_s", x="world", color="selection")
    assert len(drawn.axes) == 1 and drawn.axes[0].get_xlabel() == "world"
    assert len(result.figure(y="time_s", x="bytes", panels=["world"]).axes) == 2
    for wrong, said in (({"x": "wrld"}, "wrld"), ({"color": "selection"}, "go with x"), ({}, "no figure 'time_s'")):
        with pytest.raises(SimflError, match=said):
            result.figure("time_s", **wrong)


def test_each_world_is_ranked_by_its_own_numbers():
    """A choice that is slower in one world and quicker in the other."""
    rng = np.random.default_rng(0)
    runs = lambda time_s: tuple(  # noqa: E731
        SimpleNamespace(seed=seed, finals={"time_s": time_s + 0.1 * rng.normal()}, summary={}, diverged_round=None,
                        columns=columns_by_name()) for seed in range(10)
    )  # fmt: skip
    worlds = {}
    for name, change in (("sticky", 5.0), ("groups", -5.0)):
        each = (("random", 0.0), ("partition", change))
        groups = tuple(Group(label, {"selection": label}, runs(20.0 + more)) for label, more in each)
        worlds[name] = Study("x", ("selection",), groups, (), "random")
    line, *_ = rankings(worlds)
    assert "worse in 1 of 2 (sticky)" in line and "better in 1 of 2 (groups)" in line
