"""One rule of separators, axes that move together, named cases, and sweeps that are read from a file."""

from itertools import product

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import simfl
from simfl.cli import simfl as group
from simfl.core.errors import SimflError
from simfl.experiments.sweep.grid import Axis, case_axis, cases_of_texts, check_axes, combinations, count, group_axes
from simfl.experiments.sweep.plan import plan_sweep
from simfl.experiments.sweep.sweep_file import request
from simfl.scenario import Scenario
from simfl.scenario.overrides import split_fields, split_values
from tests.experiments.test_sweep_grid import TINY
from tests.support.swept_axes import axes, axes_of

pytestmark = pytest.mark.usefixtures("sweeps_here")


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


def call(*arguments):
    return CliRunner().invoke(group, [str(argument) for argument in arguments], catch_exceptions=False)


# -- separators --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";"])
def test_fields_are_separated_alike_in_run_sweep_compare_and_python(tiny, separator):
    policy = separator.join(["batch_partition:T=3", "mode=fair"])
    expected = Scenario.load(tiny, ["selection.name=batch_partition", "selection.T=3", "selection.mode=fair"])
    assert Scenario.load(tiny, [f"selection={policy}"]).digest == expected.digest
    assert simfl.load(tiny, {"selection": policy}).digest == expected.digest
    for grid in (axes([f"selection=random,{policy}"]), axes_of({"selection": ["random", policy]}),
                 axes_of({"selection": f"random,{policy}"})):  # fmt: skip
        assert grid == (Axis("selection", ("random", "batch_partition:T=3,mode=fair")),)
        assert expected.digest in {member.digest for member in plan_sweep(tiny, grid).members}


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "[2, 3]", "x;y", "'p,q'"])),
                         min_size=0, max_size=3), min_size=1, max_size=4))  # fmt: skip
def test_values_and_their_fields_come_back(plugins):
    texts = ["p" + ":" * bool(fields) + ",".join(f"{key}={value}" for key, value in fields) for fields in plugins]
    assert split_values(",".join(texts)) == texts
    for text, fields in zip(texts, plugins, strict=True):
        if fields:
            assert split_fields(text[2:]) == [f"{key}={value}" for key, value in fields]


@pytest.mark.parametrize("text", ["selection=batch_partition:T=3,random", "selection=random,weighted",
                                  "training.rounds=1,2", "training.rounds=1:3:1"])  # fmt: skip
def test_several_values_where_one_is_taken_name_sweep_and_compare(tiny, text):
    with pytest.raises(SimflError, match="simfl sweep and simfl compare take several") as caught:
        Scenario.load(tiny, [text])
    assert "\n" not in str(caught.value)


# -- axes that move together -------------------------------------------------------------------------------


def test_zipped_axes_move_together_and_with_the_others_they_make_the_product():
    plain = axes(["a=1,2,3", "b=x,y", "c=7:9:1"])
    assert [*combinations(plain)] == [*product("123", "xy", "789")] and count(plain) == 18
    together = check_axes(group_axes(plain, [["a", "c"]]))
    assert [*combinations(together)] == [(a, b, c) for a, c in zip("123", "789") for b in "xy"]
    assert count(together) == 6


def test_another_group_takes_a_key_out_of_its_old_one():
    old = group_axes(axes(["a=1,2", "b=3,4", "c=5,6"]), [["a", "b"]])
    new = check_axes(group_axes(old, [["a", "c"]]))
    assert {axis.key: axis.group for axis in new} == {"a": "a,c", "b": "", "c": "a,c"}
    assert [*combinations(new)] == [(a, b, c) for a, c in zip("12", "56") for b in "34"]


def test_a_zipped_key_may_repeat_a_value_but_not_all_of_a_step(tiny):
    plan = call("sweep", tiny, "selection.k=5,5,10", "training.rounds=1,2,1", "--zip", "selection.k,training.rounds",
                "--out", tiny.parent)  # fmt: skip
    assert plan.exit_code == 0, plan.output
    again = simfl.sweep(tiny, {"selection.k": [5, 5, 10], "training.rounds": [1, 2, 1]},
                        zipped=[("selection.k", "training.rounds")], out=tiny.parent)  # fmt: skip
    assert str(again.path / "index.csv") in plan.output
    assert [*zip(again.runs["selection.k"], again.runs["training.rounds"])] == [(5, 1), (5, 2), (10, 1)]
    with pytest.raises(SimflError, match="a,b: the values 1, 2 come twice"):
        check_axes(group_axes((Axis("a", ("1", "1")), Axis("b", ("2", "2"))), [["a", "b"]]))


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([["a", "b"]], "zip: keys that move together have equally many values; a has 2, b has 3"),
        ([["a"]], "a is one key"),
        ([["a", "c"], ["c", "b"]], "c stands twice"),
        ([["a", "training.round"]], "zip: training.round has no values here; did you mean 'training.rounds'"),
    ],
)
def test_groups_that_do_not_fit_are_one_line(groups, why):
    given_axes = axes(["a=1,2", "b=1,2,3", "c=3,4", "training.rounds=1,2"])
    with pytest.raises(SimflError, match=why):
        check_axes(group_axes(given_axes, groups))


# -- cases -------------------------------------------------------------------------------------------------


def test_cases_stand_for_their_overrides_under_their_names(tiny):
    cases = {"slow": {"training.rounds": 9, "selection": "batch_partition:T=3,mode=fair"}, "base": {}}
    result = simfl.sweep(tiny, {"selection.k": [3, 6]}, cases=cases, out=tiny.parent)
    digest = {(row.case, row["selection.k"]): row.digest for _, row in result.runs.iterrows()}
    for k in (3, 6):
        same = Scenario.load(tiny, ["training.rounds=9", "selection=batch_partition:T=3,mode=fair", f"selection.k={k}"])
        assert digest["slow", k] == same.digest
        assert digest["base", k] == Scenario.load(tiny, [f"selection.k={k}"]).digest
    typed = call("sweep", tiny, "selection.k=3,6", "--out", tiny.parent, "--case",
                 "slow: training.rounds=9 selection=batch_partition:T=3,mode=fair", "--case", "base:")  # fmt: skip
    assert typed.output.splitlines()[-1] == str(result.path / "index.csv")


def test_compared_cases_are_called_by_their_names_in_tables_and_figures(tiny):
    made = simfl.compare(tiny, cases={"fast": {}, "slow": {"training.rounds": 8}}, out=tiny.parent, replications=2)
    assert [choice["choice"] for choice in made.document["choices"]] == ["fast", "slow"]
    assert made.means.set_index(["choice", "metric"]).loc[("slow", "rounds"), "mean"] == 8
    from simfl.report import read_study

    assert [found.label for found in read_study([made.path]).groups] == ["fast", "slow"]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["fast"], "a case has the form"),
        (["fast: rounds"], "case fast: rounds: a case has the form"),
        (["a: x=1", "a: x=2"], "comes twice"),
        (["a: x=1 x=2"], "x comes twice"),
        (["a/b: x=1"], "letters, digits"),
        (["a: 'x=1"], "quotation"),
    ],
)
def test_bad_cases_are_one_line(texts, why):
    with pytest.raises(SimflError, match=why) as caught:
        case_axis(cases_of_texts(texts))
    assert "\n" not in str(caught.value)


def test_a_key_of_the_grid_is_no_key_of_a_case(tiny):
    found = call("sweep", tiny, "selection.k=3,6", "--case", "a: selection.k=3")
    assert found.exit_code == 2 and "case a: selection.k is varied besides" in found.output


# -- files -------------------------------------------------------------------------------------------------


def test_the_file_of_a_sweep_plays_the_same_sweep(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = call("sweep", "tiny.yaml", "selection=random,batch_partition:T=3,mode=fair", "selection.k=3,6",
                 "training.rounds=1:2:1", "--zip", "selection.k,training.rounds", "--case", "a: seed=4",
                 "--case", "b: devices.availability.dropout=0.5", "--replications", 2)  # fmt: skip
    index = tmp_path / first.output.splitlines()[-1]
    before = index.read_bytes()
    again = call("sweep", index.with_name("sweep.yaml"))
    assert again.exit_code == 0 and tmp_path / again.output.splitlines()[-1] == index, again.output
    assert "note" not in again.output and index.read_bytes() == before
    assert simfl.sweep(index.with_name("sweep.yaml")).path.resolve() == index.parent
    tiny.write_text(TINY.replace("clients: 30", "clients: 60"))
    changed = call("sweep", index.with_name("sweep.yaml"))
    assert f"was written by {index.parent.name}" in changed.output and index.parent.name not in changed.output[-60:]


def test_a_sweep_of_a_mapping_holds_the_scenario_in_its_file(tmp_path):
    data = {"name": "m", "clients": 30, "selection": {"name": "random", "k": 6}, "learning": "none",
            "training": {"name": "fedavg", "rounds": 2}}  # fmt: skip
    first = simfl.sweep(data, {"selection.k": [3, 6]}, out=tmp_path)
    assert simfl.sweep(first.path / "sweep.yaml", out=tmp_path).path == first.path
    loaded = simfl.sweep(simfl.load(data), {"selection.k": [3, 5]}, out=tmp_path)
    assert simfl.sweep(loaded.path / "sweep.yaml", out=tmp_path).path == loaded.path


def test_a_file_written_by_hand_and_what_the_command_line_changes_in_it(tiny):
    file = tiny.with_name("mine.yaml")
    file.write_text("file: tiny.yaml\nkeys:\n  training.rounds: 1:3:1\n  selection.k: [3, 5, 6]\n"
                    "zip: [[training.rounds, selection.k]]\ncases: {a: {}, b: {seed: 7}}\n"
                    "replications: 2\n")  # fmt: skip
    asked = request(file, ())
    assert count(asked.axes) == 6 and asked.replications == 2 and asked.scenario == tiny
    changed = request(file, axes(["selection.k=3,6,9"]), replications=1)
    steps = {values[1:] for values in combinations(changed.axes)}
    assert steps == {("1", "3"), ("2", "6"), ("3", "9")} and changed.replications == 1
    with pytest.raises(SimflError, match="training.rounds has 3, selection.k has 2"):
        request(file, axes(["selection.k=3,6"]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "file: tiny.yaml\nkeys: {a: 1}\nreplication: 2\n",
            r"mine.yaml:3:1: replication: .*did you mean 'replications'",
        ),
        ("keys: {a: 1}\n", "names a scenario"),
        ("file: tiny\nscenario: {}\n", "names a scenario"),
        ("file: nowhere.yaml\nkeys: {a: 1}\n", r"mine.yaml:1:7: file: nowhere.yaml: no such file"),
        ("file: tiny.yaml\nkeys: [a]\n", "mine.yaml:2:7: keys: Input should be a mapping"),
        ("file: tiny.yaml\nkeys: {a: []}\n", "no value"),
        ("file: tiny.yaml\nkeys: {a: 1:0:1}\n", "nothing leads to 0"),
        ("file: tiny.yaml\nkeys: {a: [1, 2]}\nzip: [a, b]\n", "a list of lists"),
        ("file: tiny.yaml\nkeys: {a: [1, 2]}\nzip: [[a, b]]\n", "mine.yaml:3:6: zip: b has no values"),
        ("file: tiny.yaml\ncases: {a: 3}\n", "mine.yaml:2:8: cases: case a: a mapping"),
        ("file: tiny.yaml\nreplications: true\nkeys: {a: 1}\n", "a whole number"),
        ("file: tiny.yaml\nplugins: [gone.py]\nkeys: {a: 1}\n", "gone.py: no such file"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_place(tiny, text, why):
    file = tiny.with_name("mine.yaml")
    file.write_text(text)
    with pytest.raises(SimflError, match=why) as caught:
        request(file, ())
    assert "\n" not in str(caught.value)
