"""What the papers' pages say about the strength of their comparisons follows from the stored curves."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from simfl.core.registration.family_index import undone
from simfl.scenario import Scenario
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
PAPER = HERE / "results" / "paper001"
PAPERS = HERE / "docs" / "papers"
EXPERIMENTS = HERE / "docs" / "experiments"


@pytest.fixture
def script(monkeypatch):
    def load(name):
        return imported(HERE / "results" / name, monkeypatch)

    with undone():
        yield load


def words(page, folder=PAPERS):
    """A page's text, its lines joined."""
    return re.sub(r"\s+", " ", (folder / page).read_text())


def test_the_tests_of_paper_001_are_those_of_its_curves(script, tmp_path, monkeypatch, capsys):
    evidence = script("paper001/evidence.py")
    folder = HERE / "results" / "paper001"
    issued = {name: pandas.read_csv(folder / f"{name}.csv") for name in ("tests", "whole_runs")}
    written = {}
    monkeypatch.setattr(
        pandas.DataFrame, "to_csv", lambda self, path, **options: written.update({Path(path).stem: self.copy()})
    )
    evidence.main()
    for name, table in issued.items():
        again = written[name].reset_index(drop=True)
        pandas.testing.assert_frame_equal(again, table, rtol=1e-3, check_dtype=False)
    page = (PAPER / "README.md").read_text()
    assert all(line in page for line in capsys.readouterr().out.strip().splitlines())


def test_the_sentences_on_table_3_say_what_the_tests_say():
    tests = pandas.read_csv(HERE / "results" / "paper001" / "tests.csv").set_index(["table", "setting"])
    iid, text = tests.loc[("3_authors", "IID")], words("README.md", PAPER)
    assert (iid["tests"], iid["below_0.05"], iid.without_T6_tests) == (24, 8, 20)
    assert "8 of the 24 means (six schemes, four marks) differ" in text and "without T = 6 4 of 20" in text
    assert iid["without_T6_below_0.05"] == 4 and iid.without_T6_lower == 17 and "17 of these 20 means" in text
    assert iid.without_T6_late_lower == iid.without_T6_late_tests == 10 and "all ten after 500 and 1,000" in text
    assert f"{-iid.late_difference:.1f} points lower (p {iid.late_p:.3f})" in text
    whole = pandas.read_csv(HERE / "results" / "paper001" / "whole_runs.csv").set_index(["table", "setting", "scheme"])
    for setting, sentence in (("IID", "{} over the whole run (−{} to −{})"), ("non-IID, shared", "loses {} points")):
        six = whole.loc[("3_authors", setting, "batch T=6")]
        numbers = [f"{abs(value):.1f}" for value in (six.whole, six.whole_low, six.whole_high)]
        assert sentence.format(*numbers) in text


def test_detectable_differences_are_those_of_welchs_test(script):
    from scipy.stats import ttest_ind

    evidence, rng = script("paper001/evidence.py"), np.random.default_rng(0)
    for n, m in ((5, 3), (4, 9)):
        a, b = pandas.Series(rng.normal(size=n)), pandas.Series(2 * rng.normal(size=m))
        shift = evidence.detectable(a, b) - (a.mean() - b.mean())
        assert ttest_ind(a + shift, b, equal_var=False).pvalue == pytest.approx(0.05)


def test_half_partitioning_is_ahead_where_batches_skip(script):
    half = script("theorems/half.py")
    table, issued = half.table(), pandas.read_csv(HERE / "results" / "theorems" / "half.csv")
    pandas.testing.assert_frame_equal(table, issued, rtol=1e-3, check_dtype=False)
    page = (PAPERS / "paper002.md").read_text()
    assert all(line in page for line in half.markdown(table))
    ahead = issued[issued.low > 0]
    assert ahead["T"].tolist() == [6, 12]


def test_the_page_has_the_tables_of_the_theorems():
    text = (HERE / "results" / "theorems" / "README.md").read_text()
    ranks = pandas.read_csv(HERE / "results" / "theorems" / "full_rank.csv").set_index(["scheme", "clients", "k"])
    for (clients, k), group in ranks.groupby(["clients", "k"]):
        line = next(line for line in text.splitlines() if line.startswith(f"| N = {clients}, K = {k} |"))
        for row in group.itertuples():
            assert f"{row.full_after_n:.3f} ({row.low:.3f} to {row.high:.3f}) | {row.rounds_95}" in line
        assert line.endswith(f"| {row.bound:.4f} |" if row.bound else "| nothing |")
    necessity = pandas.read_csv(HERE / "results" / "theorems" / "necessity.csv")
    assert f"for all {len(necessity)} combinations" in words("paper001.md")
    assert f"({necessity.families.notna().sum()} combinations)" in words("paper001.md")
    dropouts = pandas.read_csv(HERE / "results" / "theorems" / "dropouts.csv")
    for row in dropouts[dropouts.means == 0].itertuples():
        assert f"| {row.errors} | {row.measured:.2f} ± {row.standard_error:.2f} | {row.equation_52:.1f} |" in text


def test_the_page_has_table_4_3_of_the_thesis_by_three_rules(script):
    rules = script("fedltn/rules.py")
    page = (EXPERIMENTS / "fedltn.md").read_text()
    assert all(line in page for line in rules.markdown())
    table = rules.rules()
    assert (table.best_at_least >= table["last"]).all()
    for one, other in (("FedLTN 0.5", "LotteryFL 0.5"), ("FedLTN 0.1", "LotteryFL 0.1")):
        assert table["last"][one] < table["last"][other] and table.best_at_least[one] > table.best_at_least[other]
        assert table.best_at_least[one] - table.best_at_least[other] < 1, "within a point"


def test_the_page_of_paper_003_has_its_theorem():
    table = pandas.read_csv(HERE / "results" / "theorems" / "quantised.csv")
    text = (PAPERS / "paper003.md").read_text()
    for row in table.itertuples():
        numbers = f"{row.measured:.3f} ± {row.half_interval:.3f} | {row.last_tenth:.4f} | {row.bound_gradients:.2f} |"
        assert f"| {numbers} {row.bound_updates:.2f} |" in text
    last = table.set_index("exponent").last_tenth
    plain = table.last_tenth[0]
    assert f"{last[4] / plain:.0f} times as large at 2⁴ and {last[2] / plain:.0f} times at 2²" in words("paper003.md")
    assert last[8] < 1.2 * plain
    masks = pandas.read_csv(HERE / "results" / "theorems" / "masks.csv")
    assert (masks[(masks.late > 0) & (masks.stale < 10)].uniform_p > 0.05).all()


def test_how_sharp_whole_runs_are_and_how_the_tuned_ones_end():
    table = pandas.read_csv(PAPER / "whole_runs.csv").query("table == '3_authors' and setting == 'non-IID, shared'")
    sharper = table[table.scheme != "partition"].sharper
    assert f"{sharper.min():.1f} to {sharper.max():.0f} times sharper for the other four" in words("README.md", PAPER)
    curve = pandas.read_csv(PAPER / "curves3_tuned.csv").query("setting == 'IID' and scheme == 'random'")
    curve = curve.set_index("round").test_accuracy
    assert f"from {curve[799]:.1f} % after 800 rounds to {curve[999]:.1f}" in words("README.md", PAPER)
    rates = pandas.read_csv(PAPER / "tuning.csv").query("table == 3 and setting == 'IID'")
    rates = rates.set_index("learning_rate").mean_of_last_5
    assert f"it ends lower ({rates[0.1]:.1f} against {rates[0.03]:.1f} %, seed 100)" in words("README.md", PAPER)
    ends = pandas.read_csv(PAPER / "table3_authors.csv").set_index(["setting", "scheme"]).after_1000
    tuned = pandas.read_csv(PAPER / "table3_tuned.csv").set_index(["setting", "scheme"]).after_1000
    told = f"ends at {ends['IID', 'partition']:.1f} %, here at {tuned['IID', 'partition']:.1f} %"
    assert told in words("README.md", PAPER)


def test_the_page_has_basecagg_on_cifar10(script):
    table = pandas.read_csv(HERE / "results" / "basecagg" / "cifar10.csv")
    assert script("basecagg/cifar10.py").markdown(table) in (HERE / "results" / "basecagg" / "README.md").read_text()
    plain = table[table.secagg == "FedBuff"].set_index("seed").test_accuracy
    gaps = {exponent: runs.set_index("seed").test_accuracy - plain for exponent, runs in table.groupby("exponent")}
    by_hand = {exponent: (gap.mean(), stats.t.ppf(0.975, 2) * gap.sem()) for exponent, gap in gaps.items()}
    for row in pandas.read_csv(HERE / "results" / "basecagg" / "cifar10_differences.csv").itertuples():
        assert row.seeds == 3
        middle, half = by_hand[row.exponent]
        assert (row.difference, row.low, row.high) == pytest.approx((middle, middle - half, middle + half), abs=1e-4)
    usual, half = by_hand[16]
    interval = f"an interval of −{half - usual:.2f} to {half + usual:.2f}."
    assert f"differ by {-usual:.2f} points, with {interval}" in words("paper003.md")
    assert f"that costs {-by_hand[0][0]:.1f} points, and 2² costs {-by_hand[2][0]:.1f}" in words("paper003.md")


def test_the_larger_the_unit_the_less_is_recovered():
    table = pandas.read_csv(HERE / "results" / "attacks" / "figure9.csv")
    of_seed = table.groupby(["seed", "shown"]).psnr.median().unstack()
    for more, less in (("T = 1", "T = 2"), ("T = 2", "T = 4"), ("T = 4", "mean image")):
        gap = of_seed[more] - of_seed[less]
        assert gap.mean() - stats.t.ppf(0.975, 4) * gap.sem() > 0


def test_the_page_has_the_errors_after_1460_rounds():
    first, later = (pandas.read_csv(HERE / f"results/attacks/{name}.csv") for name in ("figure8", "figure8_1460"))
    cells = [each[(each["mode"] == "frozen") & (each.window == 50)].set_index("policy")
             for each in (first[first.seed == 0], later)]  # fmt: skip
    assert cells[0].amplification.equals(cells[1].amplification), "the same cohorts"
    errors = cells[1].error
    told = f"error of {errors['random']:.2f} where 0.0067 is published, and pairs {errors['pairs of random']:.2f}"
    assert told in words("README.md", HERE / "results" / "attacks")


@pytest.fixture(scope="module")
def recovered():
    """Of digits and MNIST: the table, and each column by policy and block as the server sees it."""
    tables = {data: pandas.read_csv(HERE / "results" / "attacks" / f"{data}.csv") for data in ("digits", "mnist")}
    seen = {data: table[table["view"] == "server"].set_index(["policy", "block"]) for data, table in tables.items()}
    return tables, lambda data, column: seen[data][column].unstack("block")


WEAK, STRONG, SERVERS = "distributed noise z=0.03", "distributed noise z=0.3", "central noise z=0.3"
PARTIAL, DROPPED = "secagg, 1 % fail, partial", "secagg, 1 % fail, drop_unit"


def at_most(value, digits=0):
    """A bound: the value, rounded up."""
    return f"{np.ceil(value * 10**digits) / 10**digits:.{digits}f}"


def test_there_are_twelve_policies_under_eight_settings(recovered):
    tables, column = recovered
    for data in tables:
        assert column(data, "rank").shape == (12, 8) and column(data, "rank").notna().all(axis=None)


def test_each_setting_of_the_attacks_table_has_the_protocol_of_its_name(script):
    """``secagg`` that is not said is ideal, where nothing is shown of single updates."""
    scenarios = script("attacks/table_scenarios.py")
    for name, changes in scenarios.BLOCKS.items():
        made = scenarios.BASE | {"learning": "none", "plugins": []}
        protocol = Scenario.of(made, overrides=["training.rounds=2", *changes]).secagg.name
        assert protocol == {"plain": "plain", "fedbuff, basecagg": "basecagg"}.get(name, "secagg"), name


def test_errors_after_more_rounds_are_geometric_means_of_the_same_seeds(script):
    cases = [(window, policy, mode) for window in (40, 50) for mode in ("frozen", "live")
             for policy in ("random", "batch T=2", "half T=2", "pairs of random")]  # fmt: skip
    rows = [(seed, *case) for case in cases for seed in (0, 1, 2)]
    first = pandas.DataFrame(rows, columns=["seed", "window", "policy", "mode"]).assign(error=0.5, expected=0.25)
    later = first[first.seed < 2].copy()
    mine = (first.window == 50) & (first.policy == "half T=2") & (first["mode"] == "live")
    first.loc[mine, "error"] = [1.0, 9.0, 100.0]
    later.loc[mine & (first.seed < 2), "expected"] = [10.0, 1000.0]
    table = script("attacks/figure8_drawing.py").markdown(first, later, 1460)
    usual = "0.50 (0.25)"
    assert f"| 50 rounds | half T=2 | {usual} | {usual} | 3.00 (0.25) | 0.50 (100) |" in table
    assert f"| 40 rounds | half T=2 | {' | '.join([usual] * 4)} |" in table


def test_the_level_with_more_seeds(script, tmp_path, monkeypatch, capsys):
    """The differences, intervals and p from the stored curves by scipy."""
    level, issued = script("paper001/level.py"), pandas.read_csv(PAPER / "level.csv")
    stored_runs = pandas.read_csv(PAPER / "published_runs.csv").query(
        "data == 'CIFAR-10' and setting == 'IID' and clients == 120 and k == 12"
    )
    curves = [pandas.read_csv(PAPER / f"curves3_{name}.csv").query("setting == 'IID'")
              for name in ("authors", "more_seeds")]  # fmt: skip
    assert not set(curves[0].seed) & set(curves[1].seed), "the further seeds are new"
    samples = {"first": curves[:1], "further": curves[1:], "all": curves}
    schemes = {"random": ["random"], "batch T=4": ["batch T=4"], "both": ["random", "batch T=4"]}
    assert list(issued["sample"].unique()) == list(samples) and list(issued.scheme.unique()) == list(schemes)
    assert len(issued) == 36
    for row in issued.itertuples():
        parts = schemes[row.scheme]
        accuracy = pandas.concat(samples[row.sample]).query("round == @row.mark - 1 and scheme in @parts")
        ours = accuracy.pivot(index="seed", columns="scheme", values="test_accuracy").dropna().mean(axis=1)
        theirs = stored_runs.query("scheme in @parts")[f"after_{row.mark}"]
        told = stats.ttest_ind(ours, theirs, equal_var=False)
        low, high = told.confidence_interval()
        assert (row.seeds, row.stored_runs) == (len(ours), 3 * len(parts))
        assert row.difference == pytest.approx(ours.mean() - theirs.mean(), abs=2e-3)
        assert (row.lower, row.upper, row.p) == pytest.approx((low, high, told.pvalue), rel=2e-3, abs=2e-3)
        factor = {3: 4.303, 6: 2.571}[len(theirs)]
        error = theirs.std() / len(theirs) ** 0.5
        assert row.stored_half_width == pytest.approx(factor * error, rel=2e-3), "Student's t"
    monkeypatch.setattr(level, "HERE", tmp_path)
    for name in ("authors", "more_seeds"):
        (tmp_path / f"curves3_{name}.csv").write_bytes((PAPER / f"curves3_{name}.csv").read_bytes())
    level.main()
    assert (tmp_path / "level.csv").read_bytes() == (PAPER / "level.csv").read_bytes()
    page, printed = (PAPER / "README.md").read_text(), capsys.readouterr().out.strip().splitlines()
    assert len(printed) == 14 and all(line in page for line in printed if not line.startswith(("| random", "| batch")))
    (tmp_path / "curves3_more_seeds.csv").write_bytes((PAPER / "curves3_authors.csv").read_bytes())
    with pytest.raises(SystemExit, match=r"seeds \[0, 1, 2, 3, 4\] stand in both"):
        level.main()


def test_the_sentences_on_the_level_say_what_the_table_says():
    table, text = (
        pandas.read_csv(PAPER / "level.csv").set_index(["scheme", "sample", "mark"]),
        words("README.md", PAPER),
    )
    seeds = pandas.read_csv(PAPER / "runs3_more_seeds.csv").groupby("scheme").seed.apply(list)
    assert dict(seeds) == {scheme: list(range(5, 15)) for scheme in ("random", "batch T=4")}
    assert "seeds 5 to 14 of both schemes test it" in text and "--first-seed 5 --seeds 10" in text
    lower = {scheme: [-table.difference[scheme, "further", mark] for mark in (500, 1000)]
             for scheme in ("random", "batch T=4", "both")}  # fmt: skip
    told = [f"{first:.1f} and {second:.1f}".replace("-", "−") for first, second in lower.values()]
    p = [table.p["both", "further", mark] for mark in (500, 1000)]
    assert f"they lie {told[0]} points lower than the stored runs after 500 and 1,000 rounds with `random`" in text
    assert f"{told[1]} with T = 4, and {told[2]} with both (p {p[0]:.2g} and {p[1]:.2g})" in text
    assert (table.p.loc[list(lower), "further", [500, 1000]] > 0.05).all(), "they do not confirm it"
    further = {mark: table.loc[("both", "further", mark)] for mark in (500, 1000)}
    spans = [f"{each.lower:.1f} to {each.upper:.1f}".replace("-", "−") for each in further.values()]
    where = "the interval after 1,000 rounds contains the difference that seeds 0 to 4 had, the one after 500 does not"
    assert "the 95 % intervals with both schemes are {} and {}; ".format(*spans) + where in text
    contain = [each.lower < table.difference["both", "first", mark] < each.upper for mark, each in further.items()]
    assert contain == [False, True]
    late = table.loc[("both", "all", 1000)]
    told = f"is {late.difference:.1f} ({late.lower:.1f} to {late.upper:.1f}) after 1,000 rounds".replace("-", "−")
    assert f"Over all {late.seeds:.0f} seeds of both schemes the difference {told} (p {late.p:.2g})" in text
    told = f"{lower['random'][1]:.1f} and {lower['batch T=4'][1]:.1f} points lower after 1,000 rounds"
    assert f"Further seeds (ten of `random`, ten of T = 4) are {told}, which may be chance" in words("paper001.md")


def test_how_narrow_the_intervals_of_the_level_can_become():
    table, text = (
        pandas.read_csv(PAPER / "level.csv").set_index(["scheme", "sample", "mark"]),
        words("README.md", PAPER),
    )
    limits = {scheme: [table.stored_half_width[scheme, "all", mark] for mark in (500, 1000)]
              for scheme in ("random", "both")}  # fmt: skip
    now = {scheme: [(table.upper - table.lower)[scheme, "all", mark] / 2 for mark in (500, 1000)] for scheme in limits}
    assert all(limit > width for limit, width in zip(limits["random"], now["random"], strict=True))
    assert all(limit < width for limit, width in zip(limits["both"], now["both"], strict=True))
    runs = pandas.read_csv(PAPER / "published_runs.csv").query(
        "data == 'CIFAR-10' and setting == 'IID' and clients == 120 and k == 12 and scheme in ['random', 'batch T=4']"
    )
    trials = runs.groupby("trial").agg({"after_500": "mean", "after_1000": "mean", "scheme": "count"})
    assert (trials.scheme == 2).all() and len(trials) == 3
    shared = 4.303 * trials[["after_500", "after_1000"]].std() / 3**0.5
    told = "±{:.1f} points after 500 rounds and ±{:.1f} after 1,000 with `random`, which is wider than now, and "
    told = told.format(*limits["random"]) + "±{:.1f} and ±{:.1f} with both (".format(*limits["both"])
    assert told + "±{:.1f} and ±{:.1f} if the stored runs of a trial share a seed".format(*shared) in text


def test_the_page_on_topologies_has_the_table_of_edges(script):
    topology, page = script("topology/topology.py"), (HERE / "results/topology/README.md").read_text()
    assert topology.markdown("edges") in page


def test_paired_differences_of_fedltn_are_those_of_the_stored_runs():
    folder = HERE / "results" / "fedltn"
    best = pandas.read_csv(folder / "high_lenet_best.csv")
    for _, run in best.groupby(["arm", "seed"]):
        assert run.best_mean.is_monotonic_increasing and (run.best_mean >= run.trained_mean).all()
        assert run.rounds.tolist() == list(range(100, 2001, 100))
    runs = best.query("rounds == 2000").set_index(["arm", "seed"])
    for row in pandas.read_csv(folder / "high_lenet_best_paired.csv").itertuples():
        arm, against = (name + ", rate 0.002" * (row.rate == 0.002) for name in (row.arm, row.against))
        gaps = runs.loc[arm][row.measure] - runs.loc[against][row.measure]
        gaps = gaps[gaps.index > 0] if row.seeds == "after seed 0" else gaps
        assert_paired(row, gaps, row.count)
    table = pandas.read_csv(folder / "dirichlet.csv")
    for row in pandas.read_csv(folder / "dirichlet_paired.csv").itertuples():
        runs = table[table.alpha == row.alpha].pivot(index="seed", columns="arm", values=row.measure)
        assert_paired(row, runs[row.arm] - runs["LotteryFL 0.5"], row.seeds)
        assert row.low < 0 < row.high, "not shown to differ, as docs/experiments/fedltn.md says"


def assert_paired(row, gaps, count):
    low, high = stats.t.interval(0.95, len(gaps) - 1, gaps.mean(), stats.sem(gaps))
    assert (count, row.difference, row.low, row.high) == pytest.approx((len(gaps), gaps.mean(), low, high), abs=2e-3)


def test_the_page_on_masked_averaging_says_what_its_tables_say(script):
    folder, text = HERE / "results" / "masked_averaging", words("masked-averaging.md", EXPERIMENTS)
    rows = pandas.read_csv(folder / "algorithms.csv").query("seeds > 0")
    below = rows[rows.masked_mean_high < 0]
    assert f"behind the mean in {(rows.masked_mean < 0).sum()} of the {len(rows)} rows" in text
    assert f"excludes zero in {len(below)} of them" in text and not (rows.masked_mean_low > 0).any()
    printed = [cells for case, cells in script("masked_averaging/algorithms_drawing.py").PRINTED.items()
               if case[0] != "colours"]  # fmt: skip
    pairs = [tuple(map(float, both.split(", "))) for cells in printed for both in cells]
    assert f"ahead in {sum(masked > mean for mean, masked in pairs)} of {len(pairs)}" in text
    colours = pandas.read_csv(folder / "algorithms_colours.csv")
    assert (colours.masked_mean < 0).all() and (colours.masked_mean_high < 0).sum() == 3
    assert "excludes zero with three of them" in text
    curves = pandas.read_csv(folder / "algorithms_colours_curves.csv").query("round >= 40")
    ends = curves.groupby(["algorithm", "arm"])[["training_accuracy", "accuracy"]].mean().unstack("arm")
    assert len(ends) == 5
    assert all((ends[name]["mean"] > ends[name].masked).all() for name in ("training_accuracy", "accuracy"))
    last = pandas.read_csv(folder / "membership.csv").query("samples == 200 and rounds == 400").groupby("arm").mean()
    attack, threshold = last.attack_accuracy, last.threshold_accuracy
    assert f"right in {attack['mean']:.1f} % of cases against the mean and {attack['masked']:.1f} %" in text
    assert f"in {threshold['mean']:.1f} and {threshold['masked']:.1f} %, and in {threshold['shrunk']:.1f} %" in text
    assert last.training_accuracy["shrunk"] < last.training_accuracy["mean"]


def test_the_sentences_below_the_twelve_policies(recovered):
    text, (_, column) = words("recovery.md", EXPERIMENTS), recovered
    alike, rank, error, epsilon = (column("digits", name) for name in ("alike_auc", "rank", "error", "epsilon"))
    of_both = np.concatenate([alike.to_numpy().ravel(), column("mnist", "alike_auc").to_numpy().ravel()])
    assert f"(AUC {np.nanmin(of_both):.2f} to {np.nanmax(of_both):.2f})" in text
    units = [name for name in rank.index if name.startswith(("batch", "half"))]
    assert (rank[PARTIAL][units] > rank.secagg[units]).all() and (rank[DROPPED][units] == rank.secagg[units]).all()
    own = (error[SERVERS] / error.secagg - 1).abs().max()
    assert f"within {at_most(100 * own)} % of that of `secagg`" in text
    factors = (error.loc["random", [WEAK, STRONG]] / error.secagg["random"]).map("{:.0f}".format)
    assert f"by {factors[WEAK]} (z = 0.03) and {factors[STRONG]} (z = 0.3)" in text
    assert 340 <= epsilon[STRONG].min() < 350 and "the ε is 340 at least" in text
