"""README, tutorials, how-tos and experiments claim what their evidence carries, and the rest is refused."""

import sys
from pathlib import Path

import pandas
import pytest

from simfl.experiments.compare.intervals import margin_p_values
from simfl.report.advice import MARGIN, levels

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "docs" / "site"))

import claim_places  # noqa: E402
import claims  # noqa: E402
import prose  # noqa: E402

SEEDS = "policy,seed,time_s,accuracy\n" + "".join(
    f"{policy},{seed},{time_s + 0.1 * (seed % 3)},{0.9 + 0.001 * (seed % 2)}\n"
    for policy, time_s in (("plain", 10.0), ("quick", 8.0))
    for seed in range(5)
)
GAIN = "results study/seeds | | {} {} policy=quick over plain | .1f"
TIME, ACCURACY = ([GAIN.format(end, name) for end in ("low", "high")] for name in ("time_s", "accuracy"))
PAGE = """# Results of 3 policies

`quick` is 2.0 s faster, with 5 seeds.
<!-- claim: quicker -->

At the same accuracy, as T = 4 and Table 4.3 say (95 % intervals).
<!-- claim: alike -->

```bash
simfl run --rounds 17
```
"""


def known():
    """A registry of two claims about a study of five seeds, which are as they must be."""
    study = {"files": ["results/study/seeds.csv"], "raw": "results/study/seeds.csv", "seeds": 5, "measured_at": 6,
             "holds_at": claims.RESULTS, "because": "the version changed digests only",
             "benchmark": "benchmarks/speed.py", "command": "python results/study/study.py --seeds 5"}  # fmt: skip
    quicker = {"kind": "measured", "study": "study", "numbers": [GAIN.format("gain", "time_s"), "seeds"],
               "compare": [{"word": "faster", "interval": TIME}]}  # fmt: skip
    same = {"kind": "measured", "study": "study", "numbers": [],
            "compare": [{"word": "the same", "margin": 0.01, "interval": ACCURACY}]}  # fmt: skip
    return {"studies": {"study": study}, "claims": {"quicker": quicker, "alike": same}}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A repository with one page, one study and its registry; what is wrong with it."""
    for path, text in {
        "README.md": PAGE, "results/study/seeds.csv": SEEDS, "results/study/study.py": "",
        "benchmarks/speed.py": "print(1)",
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for module in (claims, claim_places, prose):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    registry = known()
    clear()
    registry["studies"]["study"]["stored"] = claims.digest(registry["studies"]["study"])
    yield tmp_path, registry
    clear()


def clear():
    for cached in (claims.files_of, claims.defined, claim_places.table):
        cached.cache_clear()


def wrong(small):
    clear()
    return list(claims.complaints(small[1]))


def test_pages_say_what_their_evidence_carries():
    assert not list(claims.complaints())


def test_a_page_whose_claims_hold_has_no_complaint(small):
    assert not wrong(small)


def test_a_readme_of_results_that_names_claims_is_held_to_them(small):
    readme = small[0] / "results/study/README.md"
    readme.write_text("# A study\n\n`quick` is 9.0 s faster, with 5 seeds.\n<!-- claim: quicker -->\n")
    assert any(line.startswith("results/study/README.md:3: says 9.0") for line in wrong(small))
    readme.write_text("# A study\n\n`quick` is 9.0 s faster, with 5 seeds.\n")
    assert not wrong(small), "it names none"


@pytest.mark.parametrize(("path", "text"), [
    ("results/study/seeds.csv", SEEDS.replace("0.901", "0.902")), ("benchmarks/speed.py", "print(2)"),
])  # fmt: skip
def test_a_study_is_stale_once_its_values_or_its_benchmark_change(small, path, text):
    (small[0] / path).write_text(text)
    assert any("study study: stale" in line for line in wrong(small))


@pytest.mark.parametrize(("key", "value", "named"), [
    ("command", "python results/study/study.py --seeds 6", "stale"), ("holds_at", claims.RESULTS - 1, "stale"),
    ("seeds", 6, "has not 6 values"), ("raw", None, "no values by seed"), ("because", "", "why it still holds"),
])  # fmt: skip
def test_what_else_is_refused_of_a_study(small, key, value, named):
    study = small[1]["studies"]["study"]
    study["measured_at"] = 5
    study[key] = value
    if value is None:
        del study[key]
    assert any(named in line for line in wrong(small))


@pytest.mark.parametrize("text", ["import os\n\nprint(1)", '"""What it measures."""\nprint(1)  # once'])
def test_imports_and_words_of_a_benchmark_make_nothing_stale(small, text):
    (small[0] / "benchmarks/speed.py").write_text(text)
    assert not wrong(small)


def test_writing_numbers_leaves_pages_that_hold_as_they_are(small):
    for path in claims.pages():
        assert claims.rewritten(path, small[1]) == path.read_text()


def test_a_move_makes_nothing_stale(small):
    root, registry = small
    for path in ("results/study/seeds.csv", "benchmarks/speed.py", "results/study/study.py"):
        target = root / "results/moved" / Path(path).name
        target.parent.mkdir(exist_ok=True)
        (root / path).rename(target)
    registry["studies"]["study"]["command"] = "python results/moved/study.py --seeds 5"
    assert not wrong(small)


@pytest.mark.parametrize(("before", "after", "named"), [
    ("2.0 s", "3.0 s", "its places 2.0, 5"),
    ("2.0 s", "+2.0 s", "a sign"), ("faster", "slower", "does not say 'faster'"),
    ("<!-- claim: quicker -->\n", "", "2.0, 5: no claim"), ("claim: quicker", "claim: other", "no claim other"),
    ("quicker -->\n", "quicker -->\n\nIt is never late.\n", "never: no claim"),
    ("quicker -->\n", "quicker -->\n\nIt takes three seconds.\n", "three seconds: no claim"),
    ("quicker -->\n", "quicker -->\n\nWith 17 % more.\n", "17: no claim"),
    ("quicker -->\n", "quicker -->\n\n| a | 1.5 |\n|---|---|\n| b | 2 |\n", "a table"),
    ("At the same", "Significantly at the same", "ignificantly: no interval"),
])  # fmt: skip
def test_what_is_refused_of_a_page(small, before, after, named):
    assert PAGE.count(before) == 1
    (small[0] / "README.md").write_text(PAGE.replace(before, after))
    found = wrong(small)
    assert any(named in line for line in found), found


@pytest.mark.parametrize(("claim", "change", "named"), [
    ("quicker", {"compare": [{"word": "faster", "interval": ACCURACY}]},
     "contains 0"),
    ("quicker", {"compare": [{"word": "faster", "none": -3, "interval":
                              TIME}]}, "other side"),
    ("quicker", {"compare": []}, "no interval"), ("quicker", {"kind": "asserted"}, "is no kind"),
    ("quicker", {"kind": "proven", "numbers": [], "compare": []}, "nothing proves it"),
    ("quicker", {"tests": ["tests/x.py::test_x"]}, "no test"), ("quicker", {"pages": ["docs/no.md"]}, "no page"),
    ("alike", {"compare": [{"word": "the same", "interval": ACCURACY}]},
     "needs a margin"),
    ("alike", {"compare": [{"word": "the same", "margin": 0.01, "interval":
                            TIME}]}, "is not within"),
])  # fmt: skip
def test_a_word_that_its_evidence_does_not_carry_is_refused(small, claim, change, named):
    small[1]["claims"][claim] |= change
    assert any(named in line for line in wrong(small)), wrong(small)


def test_a_claim_that_stands_nowhere_is_named(small):
    small[1]["claims"]["lonely"] = {"kind": "proven", "pages": ["README.md"]}
    assert wrong(small) == ["claim lonely: no page has it"]


def test_numbers_are_written_from_their_places(small):
    root, registry = small
    (root / "README.md").write_text(PAGE.replace("2.0 s", "3.1 s").replace("5 seeds", "9 seeds"))
    assert claims.rewritten(root / "README.md", registry) == PAGE


POLICIES = HERE / "results" / "policies"
GUARANTEES = {"partition": 8, "batch_partition:T=4": 4, "half_partition:T=4": 4}


def test_guarantees_of_the_stored_runs_are_those_that_theory_knows():
    """After 60 rounds each policy has the guarantee that its theorem promises, in each run and world."""
    seeds = pandas.read_csv(POLICIES / "seeds.csv")
    expected = dict.fromkeys(("random", "weighted", "bernoulli"), 1) | GUARANTEES
    assert (seeds.groupby(["world", "selection"]).seed.nunique() == 30).all() and len(seeds) == 360
    here = seeds[seeds.world == "memoryless"]
    assert (here.privacy_semi_strong == here.selection.map(expected)).all()
    assert (seeds.guarantee_semi_strong == seeds.selection.map(expected)).all()
    for world, name in (("memoryless", "policies"), ("sticky", "policies_sticky")):
        table = pandas.read_csv(POLICIES / f"{name}.csv").set_index("group")
        means = seeds[seeds.world == world].groupby("selection")[["test_accuracy", "time_s", "mean_cardinality"]].mean()
        pandas.testing.assert_frame_equal(means.loc[table.index], table[means.columns], check_names=False)


@pytest.mark.parametrize("world", ["memoryless", "sticky"])
def test_the_recommendation_of_the_readme_follows_from_the_stored_runs(world):
    """By the rule of docs/how-to/recommendation.md: ranks by guarantees, margin a point."""
    from simfl.scenario import Scenario
    from simfl.selection.theory import expected_cardinality

    for name, strong in (("batch_partition", 4), ("half_partition", 2)):
        known = expected_cardinality.theory(Scenario.load("quickstart", [f"selection={name}:T=4,k=8"]))
        assert known["guarantee"]["strong"] == strong
    seeds = pandas.read_csv(POLICIES / "seeds.csv").query("world == @world")
    table = seeds.pivot(index="selection", columns="seed", values="test_accuracy")
    ranks = [["partition"], ["batch_partition:T=4"], ["half_partition:T=4"], ["random", "weighted", "bernoulli"]]
    for rank, most in zip(ranks, levels([len(rank) for rank in ranks]), strict=True):
        for name in rank:
            others = table.drop(index=name)
            p = margin_p_values([table.loc[name]] * len(others), others.to_numpy(), MARGIN)
            if p.max() <= most:
                assert name == "batch_partition:T=4"
                return
    raise AssertionError("nobody is in the running")
