"""What a sweep varies, and its members before any of them runs."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.core.errors import SimflError
from simfl.experiments.sweep.grid import Axis
from simfl.experiments.sweep.plan import plan_sweep
from simfl.scenario import Scenario
from tests.support.swept_axes import axes, axes_of

TINY = """
clients: 30
devices: {availability: {name: bernoulli, dropout: 0.3}}
selection: {name: random, k: 6}
training: {name: fedavg, rounds: 4}
learning: none
"""


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("seed=3", ("3",)),
        ("seed=1, 2,3", ("1", "2", "3")),
        ("a=[1,2],[3]", ("[1,2]", "[3]")),
        ("a={name: x, k: 4},y", ("{name: x, k: 4}", "y")),
        ("a='1,2',\"3,'4\"", ("'1,2'", '"3,\'4"')),
        ("selection=random,batch_partition:T=3;mode=fair", ("random", "batch_partition:T=3,mode=fair")),
        ("selection=x:a=[1;2];b={c: ';'},y", ("x:a=[1;2],b={c: ';'}", "y")),
        ("a=x;y", ("x;y",)),  # no plugin with fields: a semicolon is a semicolon
        ("a=http://x,12:30", ("http://x", "12:30")),
        ("training.deadline_s=", ("",)),
    ],
)
def test_commas_separate_values_and_semicolons_the_fields_of_one(text, values):
    (axis,) = axes([text])
    assert axis.key == text.partition("=")[0] and axis.values == values


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["seed"], "key=value"),
        (["=3"], "key=value"),
        (["seed=1,,2"], "write null"),
        (["seed=1,2,1"], "the value 1 comes twice"),
        (["seed=1", "seed=2"], "the key comes twice"),
        (["selection.k=4,,8"], "write null"),
    ],
)
def test_a_bad_grid_is_refused_in_one_line(texts, message):
    with pytest.raises(SimflError, match=message) as caught:
        axes(texts)
    assert "\n" not in str(caught.value)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("abc1.-{}[]'\"", min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
def test_values_without_commas_come_back_as_they_were(values):
    balanced = [v for v in values if "'" not in v and '"' not in v and not set(v) & set("[]{}")] or ["x"]
    assert axes(["k=" + ",".join(balanced)])[0].values == tuple(balanced)


def test_python_values_become_the_texts_of_overrides():
    several = [1.5, None, True, {"name": "x"}, [1]]
    found = axes_of({"seed": range(2), "a": several, "b": "x:T=3,m=y", "c": np.float64(0.5)})
    assert [axis.values for axis in found] == [
        ("0", "1"), ("1.5", "null", "true", '{"name": "x"}', "[1]"), ("x:T=3,m=y",), ("0.5",)]  # fmt: skip
    with pytest.raises(SimflError, match="cannot stand in a scenario"):
        axes_of({"a": object()})
    with pytest.raises(SimflError, match="no value"):
        axes_of({"a": []})


def test_members_are_the_product_with_rising_seeds_in_a_fixed_order(tiny):
    keys = ["training.rounds=10,9,100", "selection=random,partition", "seed=5"]
    plan = plan_sweep(tiny, axes(keys), replications=2)
    seen = [(*member.values[:2], member.seed) for member in plan.members]
    assert seen == [(r, s, seed) for r in ("9", "10", "100") for s in ("partition", "random") for seed in (5, 6)]
    other = plan_sweep(tiny, axes(["training.rounds=100,10,9", "selection=partition,random", "seed=5"]), replications=2)
    assert other.members == plan.members
    for member in plan.members:
        overrides = [f"training.rounds={member.values[0]}", f"selection={member.values[1]}", f"seed={member.seed}"]
        scenario = Scenario.load(tiny, overrides)
        assert scenario.digest == member.digest and scenario.to_yaml() == member.scenario
    assert len({plan.digest, plan_sweep(tiny, axes(keys)).digest, plan_sweep(tiny, axes(keys[:2])).digest}) == 3


def test_every_member_is_checked_and_the_bad_ones_named_with_their_key(tiny):
    with pytest.raises(SimflError) as caught:
        plan_sweep(tiny, axes(["selection=random,batch_partition:T=4,partition", "selection.k=5,7"]))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and caught.value.exit_code == 2
    assert lines[0].startswith("member selection=batch_partition:T=4 selection.k=5: ") and "selection.T" in lines[0]
    assert lines[2].startswith("member selection=partition selection.k=7: ") and "selection.k" in lines[2]
    with pytest.raises(SimflError, match=r"^member seed=-1: .*seed"):
        plan_sweep(tiny, axes(["seed=-1,1"]))
    tiny.write_text(TINY.replace("rounds: 4", "rounds: zero"))
    with pytest.raises(SimflError) as caught:  # wrong in the file: said once, with its line
        plan_sweep(tiny, axes(["seed=0,1,2"]))
    assert str(caught.value).startswith(f"{tiny}:5:") and "\n" not in str(caught.value)


def test_members_that_are_one_run_or_lie_apart_are_refused(tiny):
    with pytest.raises(SimflError, match="same run: selection.k=6 seed=1 and selection.k=6 seed=1"):
        plan_sweep(tiny, axes(["selection.k=6", "seed=0,1"]), replications=2)
    with pytest.raises(SimflError, match="same run: selection.k=6 seed=0 and selection.k=0x6 seed=0"):
        plan_sweep(tiny, axes(["selection.k=6,0x6"]))
    with pytest.raises(SimflError, match="one name"):
        plan_sweep(tiny, axes(["name=a,b"]))
    with pytest.raises(SimflError, match="replications"):
        plan_sweep(tiny, axes(["seed=1"]), replications=0)
    with pytest.raises(SimflError, match="2000000000 runs; at most 100000"):  # at once, not after reading them all
        plan_sweep(tiny, axes(["selection.k=5,10"]), replications=10**9)


# -- ranges ------------------------------------------------------------------------------------------------


@given(st.integers(-50, 50), st.integers(1, 30), st.integers(0, 20), st.integers(0, 3))
def test_ranges_count_in_decimal_numbers(first, step, count, digits):
    """Against integers: no value is 0.30000000000000004, and the last one is there where a step meets it."""

    def text(number):
        return f"{number / 10**digits:.{digits}f}"

    expected = [first + i * step for i in range(count + 1)]
    (axis,) = axes([f"k={text(first)}:{text(expected[-1])}:{text(step)}"])
    assert [Decimal(value) * 10**digits for value in axis.values] == expected
    (beyond,) = axes([f"k={text(first)}:{text(expected[-1] + step - 1)}:{text(step)}"])
    assert len(beyond.values) == len(axis.values), "what no step meets is not there"


def test_ranges_stand_beside_other_values_and_in_python():
    assert axes(["k=1:3:1,7", "rate=log:0.001:1:4"]) == (
        Axis("k", ("1", "2", "3", "7")),
        Axis("rate", ("0.001", "0.01", "0.1", "1")),
    )
    assert axes_of({"dropout": "0:0.5:0.25"})[0].values == ("0", "0.25", "0.5")
    assert axes(["k=20:0:-10"])[0].values == ("20", "10", "0")
    assert axes(["a=1:2"])[0].values == ("1:2",), "a text that is no range stays"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e7:1e9:log", ("1e7", "100000000", "1e9")),
        ("1:0.001:log", ("1", "0.1", "0.01", "0.001")),
        ("2:162:log", ("2", "18", "162")),
        ("2:3:log", ("2", "3")),
        ("1e-320:1e-318:log", ("1e-320", "9.99989e-320", "1e-318")),
    ],
)
def test_a_logarithmic_range_without_a_number_of_values_has_about_one_a_power_of_ten(text, values):
    assert axes([f"k={text}"])[0].values == values


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("k=0:1:0", "nothing leads to 1"),
        ("k=0:1:-1", "nothing leads to 1"),
        ("k=0:1:1e-9", "1000000001 values; at most 10000"),
        ("k=log:0:1:3", "two positive numbers"),
        ("k=0:1:log", "two positive numbers"),
        ("k=np.logspace(-3,0,4)", "log:FIRST:LAST:COUNT"),
        ("k=log:1:2:1", "how many values"),
        ("k=log:1:2:1.5", "how many values"),
        ("k=0:1e999999999:1", "between 1e-15 and 1e15"),
        ("k=0:1e15:1e-15", "at most 10000"),
        ("k=log:1:1e999:3", "two positive numbers"),
        ("k=log:1:2:" + 99 * "9", "how many values"),
        ("k=1,0:2:1", "the value 1 comes twice"),
    ],
)
def test_ranges_that_hold_nothing_are_refused(text, why):
    with pytest.raises(SimflError, match=why):
        axes([text])


def test_arrays_and_columns_are_values():
    import pandas

    for values in (np.array([1, 2]), pandas.Series([1, 2]), pandas.Index([1, 2]), [np.int64(1), np.int32(2)]):
        assert axes_of({"seed": values})[0].values == ("1", "2")
    assert axes_of({"d": np.linspace(0, 0.5, 3)})[0].values == ("0.0", "0.25", "0.5")
    assert axes_of({"latency_s": [[np.float64(0.5), np.float32(0.25)]]})[0].values == ("[0.5, 0.25]",)


def test_a_range_of_whole_numbers_fits_keys_of_whole_numbers(tiny):
    plan = plan_sweep(tiny, axes(["training.rounds=log:1:1000000:3"]))
    assert [member.values[0] for member in plan.members] == ["1", "1000", "1000000"]
    assert axes(["rate=log:1:1234567:2"])[0].values == ("1", "1234567"), "the ends are as they were typed"
    assert axes(["training.rounds=log:1:100000000:3"])[0].values == ("1", "10000", "100000000")


def test_what_is_no_grid_is_one_line():
    import pandas

    for grid in ([], None, {"": 1}, {"seed=": 1}, {1: 2}):
        with pytest.raises(SimflError, match="grid"):
            axes_of(grid)
    for values in ({1, 2}, b"ab", pandas.DataFrame({"a": [1]}), np.ones((2, 2))):
        with pytest.raises(SimflError, match="seed: .*give a list"):
            axes_of({"seed": values})
