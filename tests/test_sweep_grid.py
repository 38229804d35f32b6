"""What a sweep varies, and its members before any of them runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simfl.errors import SimflError
from simfl.scenario import Scenario
from simfl.sweep.grid import axes, axes_of
from simfl.sweep.plan import planned

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
        (["selection=random,batch_partition:T=3,mode=fair"], "selection=batch_partition:T=3;mode=fair"),
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
    plan = planned(tiny, axes(keys), replications=2)
    seen = [(*member.values[:2], member.seed) for member in plan.members]
    assert seen == [(r, s, seed) for r in ("9", "10", "100") for s in ("partition", "random") for seed in (5, 6)]
    other = planned(tiny, axes(["training.rounds=100,10,9", "selection=partition,random", "seed=5"]), replications=2)
    assert other.members == plan.members
    for member in plan.members:
        overrides = [f"training.rounds={member.values[0]}", f"selection={member.values[1]}", f"seed={member.seed}"]
        scenario = Scenario.load(tiny, overrides)
        assert scenario.digest == member.digest and scenario.to_yaml() == member.scenario
    assert len({plan.digest, planned(tiny, axes(keys)).digest, planned(tiny, axes(keys[:2])).digest}) == 3


def test_every_member_is_checked_and_the_bad_ones_named_with_their_key(tiny):
    with pytest.raises(SimflError) as caught:
        planned(tiny, axes(["selection=random,batch_partition:T=4,partition", "selection.k=5,7"]))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3 and caught.value.exit_code == 2
    assert lines[0].startswith("member selection=batch_partition:T=4 selection.k=5: ") and "selection.T" in lines[0]
    assert lines[2].startswith("member selection=partition selection.k=7: ") and "selection.k" in lines[2]
    with pytest.raises(SimflError, match=r"^member seed=-1: .*seed"):
        planned(tiny, axes(["seed=-1,1"]))
    tiny.write_text(TINY.replace("rounds: 4", "rounds: zero"))
    with pytest.raises(SimflError) as caught:  # wrong in the file: said once, with its line
        planned(tiny, axes(["seed=0,1,2"]))
    assert str(caught.value).startswith(f"{tiny}:5:") and "\n" not in str(caught.value)


def test_members_that_are_one_run_or_lie_apart_are_refused(tiny):
    with pytest.raises(SimflError, match="same run: selection.k=6 seed=1 and selection.k=6 seed=1"):
        planned(tiny, axes(["selection.k=6", "seed=0,1"]), replications=2)
    with pytest.raises(SimflError, match="same run: selection.k=6 seed=0 and selection.k=0x6 seed=0"):
        planned(tiny, axes(["selection.k=6,0x6"]))
    with pytest.raises(SimflError, match="one name"):
        planned(tiny, axes(["name=a,b"]))
    with pytest.raises(SimflError, match="replications"):
        planned(tiny, axes(["seed=1"]), replications=0)
    with pytest.raises(SimflError, match="2000000000 runs; at most 100000"):  # at once, not after reading them all
        planned(tiny, axes(["selection.k=5,10"]), replications=10**9)
