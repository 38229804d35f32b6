"""What the papers' pages say about the strength of their comparisons follows from the stored curves."""

import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from simfl.core.registration.family_index import undone
from simfl.experiments.compare.intervals import mean as interval_of
from simfl.scenario import Scenario
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
PAPER = HERE / "results" / "paper001"
PAPERS = HERE / "docs" / "papers"


@pytest.fixture
def script(monkeypatch):
    def load(name):
        return imported(HERE / "results" / name, monkeypatch)

    with undone():
        yield load


def words(page):
    """A page's text, its lines joined."""
    return re.sub(r"\s+", " ", (PAPERS / page).read_text())


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
    page = (PAPERS / "paper001.md").read_text()
    assert all(line in page for line in capsys.readouterr().out.strip().splitlines())


def test_the_sentences_on_table_3_say_what_the_tests_say():
    tests = pandas.read_csv(HERE / "results" / "paper001" / "tests.csv").set_index(["table", "setting"])
    iid, text = tests.loc[("3_authors", "IID")], words("paper001.md")
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
    text = (PAPERS / "paper001.md").read_text()
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
    page = (HERE / "docs" / "how-to" / "personal.md").read_text()
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


def test_the_page_has_the_differences_by_seed_at_two_rates(script):
    paired, folder = script("fedltn/best_paired.py"), HERE / "results" / "fedltn"
    table = pandas.read_csv(folder / "high_lenet_best_paired.csv")
    page = (HERE / "docs" / "how-to" / "personal.md").read_text()
    text = re.sub(r"\s+", " ", page)
    assert all(paired.markdown(table, rate) in page for rate in ("0.02", "0.002"))
    runs = pandas.read_csv(folder / "high_lenet_best.csv").query("rounds == 2000").set_index(["arm", "seed"])
    for row in table.itertuples():
        arm, against = (name + ", rate 0.002" * (row.rate == 0.002) for name in (row.arm, row.against))
        gaps = runs.loc[arm][row.measure] - runs.loc[against][row.measure]
        gaps = gaps[gaps.index > 0] if row.seeds == "after seed 0" else gaps
        low, high = stats.t.interval(0.95, len(gaps) - 1, gaps.mean(), stats.sem(gaps))
        assert (row.count, row.difference, row.low, row.high) == pytest.approx(
            (len(gaps), gaps.mean(), low, high), abs=1e-4
        )
    whole = table[(table.rate == 0.002) & (table.seeds == "all") & (table.measure == "trained_mean")]
    low, lottery, *dense = whole.set_index(["arm", "against"]).itertuples()
    assert len(dense) == 3 and all(row.low > 0 for row in (low, lottery, dense[0])) and dense[2].high < 0
    assert f"LotteryFL 0.1 there, by {low.difference:.1f} points (published: 2.8)" in text
    assert f"FedLTN 0.5 is ahead of it by {lottery.difference:.1f} points (published: 1.4)" in text
    told = "between {:.1f} behind (FedLTN 0.9) and {:.1f} ahead (FedLTN 0.1)"
    assert told.format(-dense[2].difference, dense[0].difference) in text
    cells = [f"{row.difference:.1f} points ({row.low:.1f} to {row.high:.1f})" for row in (lottery, low)]
    assert f"FedLTN is ahead, by {cells[0].replace(' points', '')} and {cells[1]}" in text
    ours = table[(table.rate == 0.02) & (table.measure == "best_mean")].set_index(["arm", "against"])
    dense, pruned = ours.xs("FedAvg", level="against"), ["FedLTN 0.1", "FedLTN 0.5", "FedLTN 0.9"]
    told = "differ from it by {:.1f}, {:.1f} and {:.1f} points (published: 27.3, 25.7 and 24.8), with intervals"
    assert told.format(*dense.difference[pruned]).replace("-", "−") + " of at most 0.6 points" in text
    assert (dense.high - dense.difference).max() < 0.6 and ((dense.low < 0) & (dense.high > 0)).all()
    by_step = {}
    for step, suffix in (("20 %", ""), ("10 %", ", step 0.1")):
        by_step[step] = [ours.loc[(f"FedLTN {target}", f"LotteryFL {target}{suffix}")] for target in (0.1, 0.5)]
        cells = [f"{row.difference:.1f} ({row.low:.1f} to {row.high:.1f})" for row in by_step[step]]
        assert f"with steps of {step} by {' and '.join(cells)}".replace("-", "−") in text
    tenth, half = (f"{row.difference:.1f}, {row.low:.1f} to {row.high:.1f}" for row in by_step["20 %"])
    assert f"where LotteryFL prunes 20 % a step ({half}, and {tenth}); with steps".replace("-", "−") in text
    assert all(row.low < 0 < row.high for row in by_step["20 %"])
    behind, ahead = by_step["10 %"]
    told = f"FedLTN is {ahead.difference:.1f} points ahead at 50 % ({ahead.low:.1f} to {ahead.high:.1f}) and"
    assert f"{told} {-behind.difference:.1f} behind at 10 % ({abs(behind.high):.1f} to {-behind.low:.1f})" in text
    assert behind.high < 0 < ahead.low
    means = runs.groupby("arm").mean(numeric_only=True)
    lead = means.best_mean[pruned] - means.before_mean["FedAvg"]
    best = means.best_mean[pruned]
    told = f"FedLTN's best so far ({best.min():.1f} to {best.max():.1f}) is {lead.min():.1f} to {lead.max():.1f} points"
    assert f"{told} ahead of FedAvg's global model ({means.before_mean['FedAvg']:.1f}," in text


def test_the_page_has_the_best_accuracies_so_far(script):
    best, folder = script("fedltn/best.py"), HERE / "results" / "fedltn"
    table = pandas.read_csv(folder / "high_lenet_best.csv")
    page = (HERE / "docs" / "how-to" / "personal.md").read_text()
    text = re.sub(r"\s+", " ", page)
    assert best.markdown(table) in page and best.course(table) in page
    for _, run in table.groupby(["arm", "seed"]):
        assert run.best_mean.is_monotonic_increasing and (run.best_mean >= run.trained_mean).all()
        assert run.rounds.tolist() == list(range(100, 2001, 100))
    last = table[table.rounds == 2000].groupby("arm").mean(numeric_only=True)
    at_002 = pandas.read_csv(folder / "high_lenet.csv").set_index("arm")
    falls = [at_002.trained_mean["FedLTN 0.1"]]
    falls += [last.trained_mean[f"FedLTN 0.1, rate {rate}"] for rate in (0.01, 0.005, 0.002)]
    told = "{:.1f} % at the rate 0.02 (`high_lenet.csv`), {:.1f} at 0.01, {:.1f} at 0.005 and {:.1f} at 0.002."
    assert f"mean of five seeds, {told.format(*falls)}" in text
    seeds = table[table.rounds == 2000].groupby("arm").seed.nunique()
    assert (seeds == 5).all() and set(seeds.index) == set(best.CHOSEN)
    assert f"for each of {seeds.sum()} runs" in text
    names = ("FedLTN 0.1", "LotteryFL 0.1, step 0.1", "FedLTN 0.9", "FedLTN 0.5", "FedAvg")
    slow = {name: last.trained_mean[name + ", rate 0.002"] for name in names}
    told = (
        "FedLTN 0.1 {:.1f} (published 77.9), LotteryFL 0.1 {:.1f} (75.1), FedLTN 0.9 {:.1f} (75.4), FedLTN 0.5 {:.1f} "
    )
    assert told.format(*slow.values()) in text
    over = [slow[name] - best.PUBLISHED[name.split(",")[0]][0] for name in names[:4]]
    assert f"the last round is {min(over):.0f} to {max(over):.0f} points above the thesis" in text and min(over) > 0.5
    pair = [f"{name}, rate 0.002" for name in names[:2]]
    by_seed = table[table.arm.str.endswith("rate 0.002")].pivot(
        index=["rounds", "seed"], columns="arm", values="trained_mean"
    )
    assert by_seed.notna().all(axis=None) and len(by_seed) == 20 * 5
    way = by_seed.groupby("rounds").mean()
    leads = way[pair[0]] - way[pair[1]]
    assert f"lead is {leads[1000]:.1f} points after round 1,000 and {leads[1500]:.1f} after 1,500" in text
    assert leads[1000] > leads[1500] > leads[2000]
    dense = by_seed["FedAvg, rate 0.002"].unstack()
    assert (
        dense.idxmax().between(1000, 1500).all() and (dense.idxmax() == 1000).any() and (dense.idxmax() == 1500).any()
    )
    below = (by_seed.groupby("seed").max() - by_seed.loc[2000]).agg(["min", "max"])
    assert "ends {:.1f} to {:.1f} points below that".format(*below["FedAvg, rate 0.002"]) in text
    assert "FedLTN 0.1 ends {:.1f} to {:.1f} below its highest".format(*below[pair[0]]) in text
    assert (below["FedLTN 0.5, rate 0.002"] == 0).all()
    assert f"after round 1,000 FedAvg was {way['FedAvg, rate 0.002'][1000] - way[pair[0]][1000]:.1f} ahead" in text
    late, dense = last.loc["LotteryFL 0.5, step 0.1, rate 0.002"], last.megabytes["FedAvg"]
    assert f"at {late.trained_mean:.1f} (74.9) and still sends {late.megabytes / dense:.2f} of FedAvg's" in text
    assert f"FedLTN 0.9 sends {last.megabytes['FedLTN 0.9, rate 0.002'] / dense:.2f} (published 0.20" in text
    before = last.before_mean["FedAvg, rate 0.002"]
    assert f"FedAvg is at {slow['FedAvg']:.1f} after a job and at {before:.1f} before one (published 50.6)" in text
    gap = "fall and is at {:.1f} %, FedLTN 0.1 is at {:.1f} and FedLTN 0.9 at {:.1f} (five seeds)"
    assert gap.format(slow["FedAvg"], slow["FedLTN 0.1"], slow["FedLTN 0.9"]) in text
    reached = last.best_mean.drop("LotteryFL 0.5, step 0.1, rate 0.002")
    assert f"lie between {reached.min():.1f} and {reached.max():.1f} %, which is FedAvg's at 0.002" in text
    assert reached.idxmax() == "FedAvg, rate 0.002"
    assert reached.min() > max(mean for mean, *_ in best.PUBLISHED.values())
    most = {name: last.loc[name] for name in ("FedLTN 0.9", "LotteryFL 0.5")}
    shares = {name: row.megabytes / dense for name, row in most.items()}
    told = (
        "FedLTN 0.9 at {:.1f} % with {:.2f} of FedAvg's (published 75.4 and 0.20), and LotteryFL 0.5 with steps of "
        "20 % at {:.1f} % with {:.2f} (74.9 and 0.54)"
    )
    assert told.format(*(value for name, row in most.items() for value in (row.trained_mean, shares[name]))) in text
    for name, row in most.items():
        mean, _, share = best.PUBLISHED[name]
        assert 2 < row.trained_mean - mean < 3 and abs(shares[name] - share) < 0.015
    on_the_way = table.groupby(["arm", "rounds"]).trained_mean.mean().groupby("arm").max()
    told = "Their means over the seeds were {:.1f} and {:.1f} points higher on the way."
    assert told.format(*(on_the_way[name] - row.trained_mean for name, row in most.items())) in text
    course = pandas.read_csv(folder / "high_lenet_course.csv").query("rounds == 1500").set_index("arm").trained_mean
    earlier = table[table.rounds == 1500].groupby("arm").trained_mean.mean()
    lottery = ["LotteryFL 0.1", "LotteryFL 0.5"]
    small = [f"{name}, step 0.1" for name in lottery]
    shares = last.megabytes[small] / dense
    told = (
        f"sends {shares[small[0]]:.2f} of FedAvg's megabytes (published 0.91; {at_002.share[lottery[0]]:.2f} at 20 %)"
    )
    assert f"{told} and LotteryFL 0.5 {shares[small[1]]:.2f} (published" in text
    gains = [at_002.trained_mean[one] - last.trained_mean[other] for one, other in zip(lottery, small, strict=True)]
    gains += [course[one] - earlier[other] for one, other in zip(lottery, small, strict=True)]
    told = "are higher with 20 %, by {:.1f} and {:.1f} points, though the intervals overlap; after round 1,500"
    assert f"{told} by {{:.1f}} and {{:.1f}}.".format(*gains) in text
    tops = [interval_of(table.query("rounds == 2000 and arm == @name").trained_mean).upper for name in small]
    assert min(gains) > 0 and (at_002.trained_mean_low[lottery] < tops).all()
    ends = last.trained_mean["FedLTN 0.5"], at_002.trained_mean["FedLTN 0.5"]
    told = "falls to {:.1f} % ({:.1f} in the table at the head of this section)".format(*ends)
    assert f"as LotteryFL 0.5 and {told}" in text
    holders, pull, plain = last.loc["FedLTN 0.1, holders"], "FedLTN 0.1, printed pull", at_002.loc["FedLTN 0.1"]
    assert f"({holders.trained_mean:.1f} after the last job, against {plain.trained_mean:.1f})" in text
    assert f"a job with {holders.before_mean:.1f} instead of {plain.before_mean:.1f} %" in text
    ends = last.trained_mean[pull], plain.trained_mean, earlier[pull], course["FedLTN 0.1"]
    assert "ends at {:.1f}, against {:.1f}, and falls as soon: {:.1f} against {:.1f} after 1,500".format(*ends) in text
    assert abs(ends[0] - ends[1]) < 3 and abs(ends[2] - ends[3]) < 3


def test_the_page_has_logistic_regression_of_the_thesis():
    text = (HERE / "docs" / "how-to" / "learning.md").read_text()
    for name, clients in (("convex_iid", "IID"), ("convex_skew", "two classes, 90 %")):
        (row,) = pandas.read_csv(HERE / "results" / "masked_averaging" / f"{name}.csv").itertuples()
        assert f"| {clients} | {row.mean:.1f} | {row.masked:.1f} | {row.mask_mean:.2f} |" in text


def test_how_sharp_whole_runs_are_and_how_the_tuned_ones_end():
    table = pandas.read_csv(PAPER / "whole_runs.csv").query("table == '3_authors' and setting == 'non-IID, shared'")
    sharper = table[table.scheme != "partition"].sharper
    assert f"{sharper.min():.1f} to {sharper.max():.0f} times sharper for the other four" in words("paper001.md")
    curve = pandas.read_csv(PAPER / "curves3_tuned.csv").query("setting == 'IID' and scheme == 'random'")
    curve = curve.set_index("round").test_accuracy
    assert f"from {curve[799]:.1f} % after 800 rounds to {curve[999]:.1f}" in words("paper001.md")
    rates = pandas.read_csv(PAPER / "tuning.csv").query("table == 3 and setting == 'IID'")
    rates = rates.set_index("learning_rate").mean_of_last_5
    assert f"it ends lower ({rates[0.1]:.1f} against {rates[0.03]:.1f} %, seed 100)" in words("paper001.md")
    ends = pandas.read_csv(PAPER / "table3_authors.csv").set_index(["setting", "scheme"]).after_1000
    tuned = pandas.read_csv(PAPER / "table3_tuned.csv").set_index(["setting", "scheme"]).after_1000
    told = f"ends at {ends['IID', 'partition']:.1f} %, here at {tuned['IID', 'partition']:.1f} %"
    assert told in words("paper001.md")


def test_how_linear_the_costs_of_oblivious_noise_are_and_what_they_simulate():
    text = " ".join((HERE / "docs" / "how-to" / "oblivious.md").read_text().split())
    costs = pandas.read_csv(HERE / "results" / "oblivious" / "costs.csv", index_col="users")
    slopes = costs.loc["a user more"]
    sizes = costs.iloc[:7].set_index(costs.index[:7].astype(int))
    off = sizes[["server", "setup", "encryption"]].div(np.outer(sizes.index, slopes[["server", "setup", "encryption"]]))
    off = 100 * (off - 1)
    both = off[["setup", "encryption"]]
    assert both.loc[800:].abs().max(axis=None) <= 5.5 and both.loc[:600].min(axis=None) > -1
    assert f"up to {both.max(axis=None):.0f} % above it for fewer" in text
    assert f"are within {off.server.abs().max():.0f} %" in text
    times = (
        pandas.read_csv(HERE / "results" / "oblivious" / "total_time.csv").set_index(["noise", "map", "users"]).total_s
    )
    once = [f"{times['once', place, 200]:.1f} {words}{times['once', place, 5000]:.1f} s" for place, words in
            (("New York", "s to "), ("London", "to "), ("world", "to "))]  # fmt: skip
    assert all(span in text for span in once)
    assert "{}, {} and {} s for 5,000 clients".format(*(f"{times['every_round', m, 5000]:.1f}" for m in
                                                        ("New York", "London", "world"))) in text  # fmt: skip


def test_the_page_has_basecagg_on_cifar10(script):
    table = pandas.read_csv(HERE / "results" / "basecagg" / "cifar10.csv")
    assert script("basecagg/cifar10.py").markdown(table) in (PAPERS / "paper003.md").read_text()
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


def test_the_page_has_the_recovered_images(script):
    figure9 = script("attacks/figure9.py")
    table = pandas.read_csv(HERE / "results" / "attacks" / "figure9.csv")
    text = re.sub(r"\s+", " ", (page := (HERE / "docs" / "how-to" / "attacks.md").read_text()))
    assert figure9.markdown(table) in page
    of_seed = table.groupby(["seed", "shown"]).psnr.median().unstack()
    falls = []
    for more, less in (("T = 1", "T = 2"), ("T = 2", "T = 4"), ("T = 4", "mean image")):
        gap = of_seed[more] - of_seed[less]
        assert gap.mean() - stats.t.ppf(0.975, 4) * gap.sem() > 0
        falls.append(f"{gap.mean():.1f}")
    first, second, third = falls
    assert f"{first} dB less at T = 2 than at T = 1, {second} less at T = 4 than at T = 2" in text
    assert f"mean image another {third} below" in text


def test_the_page_has_the_errors_after_1460_rounds(script):
    folder, page = HERE / "results" / "attacks", (HERE / "docs" / "how-to" / "attacks.md").read_text()
    first, later = (pandas.read_csv(folder / f"{name}.csv") for name in ("figure8", "figure8_1460"))
    assert script("attacks/figure8_drawing.py").markdown(first, later, 1460) in page
    text = re.sub(r"\s+", " ", page)
    cells = [each[(each["mode"] == "frozen") & (each.window == 50)] for each in (first[first.seed == 0], later)]
    cells = [each.set_index("policy") for each in cells]
    assert cells[0].amplification.equals(cells[1].amplification), "the same cohorts"
    random, pairs = ([each.loc[name] for each in cells] for name in ("random", "pairs of random"))
    assert f"{random[1].error:.2f} instead of 0.0067 ({random[0].error:.2f} after 150)" in text
    assert f"is {random[1].expected / random[0].expected:.1f} times as large" in text
    assert f"{pairs[1].error:.2f} ({pairs[0].error:.2f} after 150; published 0.783)" in text
    assert f"without noise {pairs[1].expected:.2f}, since" in text
    assert f"by a factor of {pairs[1].norm_ratio:.2f} ({pairs[0].norm_ratio:.2f})" in text


@pytest.fixture(scope="module")
def recovered():
    """Of digits and MNIST: the table, and each column by policy and block as the server sees it."""
    tables = {data: pandas.read_csv(HERE / "results" / "attacks" / f"{data}.csv") for data in ("digits", "mnist")}
    seen = {data: table[table["view"] == "server"].set_index(["policy", "block"]) for data, table in tables.items()}
    return tables, lambda data, column: seen[data][column].unstack("block")


UNITS = [f"batch T={size}" for size in (2, 3, 4, 6)]
HALVES = [f"half T={size}" for size in (2, 4, 6)]
WITHOUT_UNITS = ["random", "weighted", "bernoulli"]
WEAK, STRONG, SERVERS = "distributed noise z=0.03", "distributed noise z=0.3", "central noise z=0.3"
PARTIAL, DROPPED = "secagg, 1 % fail, partial", "secagg, 1 % fail, drop_unit"


def attacks_page():
    return re.sub(r"\s+", " ", (HERE / "docs" / "how-to" / "attacks.md").read_text())


def at_most(value, digits=0):
    """A bound: the value, rounded up."""
    return f"{np.ceil(value * 10**digits) / 10**digits:.{digits}f}"


def test_the_page_has_twelve_policies_under_eight_settings(script, recovered):
    pages, page = script("attacks/table_drawing.py"), (HERE / "docs" / "how-to" / "attacks.md").read_text()
    tables, column = recovered
    assert pages.markdown(tables["digits"], pages.DIGITS) in page
    assert pages.markdown(tables["mnist"], pages.MNIST) in page
    for data in tables:
        assert column(data, "rank").shape == (12, 8) and column(data, "rank").notna().all(axis=None)


def test_each_setting_of_the_attacks_table_has_the_protocol_of_its_name(script):
    """``secagg`` that is not said is ideal, where nothing is shown of single updates."""
    scenarios = script("attacks/table_scenarios.py")
    for name, changes in scenarios.BLOCKS.items():
        made = scenarios.BASE | {"learning": "none", "plugins": []}
        protocol = Scenario.of(made, overrides=["training.rounds=2", *changes]).secagg.name
        assert protocol == {"plain": "plain", "fedbuff, basecagg": "basecagg"}.get(name, "secagg"), name


def test_the_sentences_on_what_the_server_recovers_of_digits(recovered):
    text, (_, column) = attacks_page(), recovered
    alike, rank, error = (column("digits", name) for name in ("alike_auc", "rank", "error"))
    assert f"its AUC is {alike.min(axis=None):.2f} to {alike.max(axis=None):.2f} everywhere" in text
    broken = "ranks {}, {}, {}, {} to {}, {}, {}, {},".format(*rank.secagg[UNITS], *rank[PARTIAL][UNITS])
    assert f"Under `partial` units of 2, 3, 4 and 6 rise from {broken}" in text
    assert (column("digits", "weak")[PARTIAL][UNITS + HALVES] == 1).all()
    assert (error[PARTIAL][UNITS + HALVES] > 1).all() and "amplified drift (errors above 1)" in text
    half = rank.secagg["half T=2"], error.secagg["half T=2"]
    assert f"rank is {half[0]} of 48" in text and f"drift is amplified (error {half[1]:.1f})" in text
    assert "T = 4 and 6 has the ranks of batches of about 2 and 3" in text
    batches = rank.secagg[["batch T=2", "batch T=3"]].to_numpy()
    assert (np.abs(rank.secagg[["half T=4", "half T=6"]].to_numpy() - batches) == 1).all()
    psnr, gain = column("digits", "psnr").plain, column("digits", "psnr_over_guess").secagg
    assert f"at {psnr.min():.0f} to {psnr.max():.0f} dB under `plain`" in text
    free, units, halves = (
        f"{gain[some].min():.0f} to {gain[some].max():.0f}" for some in (WITHOUT_UNITS, UNITS, HALVES)
    )
    said = f"{free} dB above the mean sample under random selection, {units} under batches, {halves} under half-batches"
    assert said in text


def test_the_sentences_on_noise_and_the_digits(recovered):
    text, (tables, column) = attacks_page(), recovered
    error, gain, accuracy, auc, epsilon = (
        column("digits", name) for name in ("error", "psnr_over_guess", "accuracy", "auc", "epsilon")
    )
    own = (error[SERVERS] / error.secagg - 1).abs().max()
    public = tables["digits"].query("view == 'public'").set_index("policy").error
    assert f"within {at_most(100 * own)} % of that of `secagg`" in text
    differs = (public / error[STRONG] - 1).abs().max()
    assert f"within {at_most(100 * differs)} % of that with the clients' own noise" in text
    factors = (error.loc["random", [WEAK, STRONG]] / error.secagg["random"]).map("{:.0f}".format)
    assert f"by {factors[WEAK]} (z = 0.03) and {factors[STRONG]} (z = 0.3)" in text
    assert f"better than the mean (at most {at_most(gain[[WEAK, STRONG]].max(axis=None), 1)} dB)" in text
    fall = -accuracy[[WEAK, STRONG]].sub(accuracy.plain, axis=0).min(axis=None)
    assert f"accuracy is at most {at_most(100 * fall, 1)} points below that of `plain`" in text
    moved = auc[[WEAK, STRONG]].sub(auc.secagg, axis=0).abs().max(axis=None)
    assert f"differ by at most {at_most(moved, 2)} from those with `secagg`" in text
    others = epsilon.drop("all")
    assert others[WEAK].between(33_000, 48_000).all() and others[STRONG].between(340, 490).all()
    assert epsilon.loc["all", [WEAK, STRONG]].round(-2).tolist() == [133300, 1300]
    assert "ε is 33,000 to 48,000 and 340 to 490 (`all`: 133,000 and 1,300)" in text


def test_the_sentences_on_twelve_policies_and_mnist(recovered):
    text, (tables, column) = attacks_page(), recovered
    gain, rank, error, alike, epsilon, accuracy = (
        column("mnist", name) for name in ("psnr_over_guess", "rank", "error", "alike_auc", "epsilon", "accuracy")
    )
    assert (gain.plain > 0).all() and (gain.secagg < 0).all() and "recovers no image under these policies" in text
    assert "up to ranks {}, {}, {} and {}.".format(*rank[PARTIAL][UNITS]) in text
    assert f"the AUCs are {alike.min(axis=None):.2f} to {alike.max(axis=None):.2f} in each cell" in text
    costs = [100 * (accuracy.secagg - accuracy[block]) for block in (STRONG, SERVERS)]
    gained = -costs[0].pop("bernoulli")
    clients, server = (f"{cost.min():.0f} to {cost.max():.0f}" for cost in costs)
    assert f"costs {clients} points of accuracy here if it is the clients' noise and {server} if it is" in text
    assert f"is low, {100 * accuracy.secagg['bernoulli']:.0f} %, gains {gained:.1f} by the clients' noise" in text
    others = epsilon.drop("all")
    assert others[STRONG].between(800, 1050).all() and others[SERVERS].between(530, 650).all()
    assert epsilon.loc["all", [STRONG, SERVERS]].round(-2).tolist() == [3300, 1900]
    assert "at an ε of about 1,000 and 600 (`all`: 3,300 and 1,900)" in text
    assert error[SERVERS].max() < 1.6 and "whose errors stay below 1.6" in text
    ratio = tables["mnist"].query("view == 'public'").set_index("policy").error / error[STRONG]
    assert f"the public's are {ratio.min():.1f} to {ratio.max():.1f} times as high" in text
    for data in tables:
        ranks = column(data, "rank")
        for block in (DROPPED, "fedbuff, basecagg"):
            kept = [*UNITS, *HALVES, "partition"]
            assert (ranks[block][kept] == ranks.secagg[kept]).all()
        assert f"except that `all` has {ranks['fedbuff, basecagg']['all']}: it hides nobody" in text
        assert ranks.secagg["all"] == 1 and ranks[DROPPED]["all"] == ranks[PARTIAL]["all"]
    assert f"rises to {rank[DROPPED]['all']} ({column('digits', 'rank')[DROPPED]['all']} on the digits)" in text


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


def test_the_page_has_the_reduced_tables_of_appendix_b(script):
    reduced = script("masked_averaging/reduced.py")
    text = (HERE / "docs" / "how-to" / "learning.md").read_text()
    folder = HERE / "results" / "masked_averaging"
    assert reduced.one_column(pandas.read_csv(folder / "clients.csv"), "clients") in text
    assert reduced.one_column(pandas.read_csv(folder / "few_epochs.csv"), "local_epochs") in text
    table = pandas.read_csv(folder / "clients.csv").set_index("clients")
    costs = [f"{-table[gap].max():.0f} to {-table[gap].min():.0f}" for gap in ("masked_mean", "shrunk_mean")]
    assert (table.seeds == 3).all() and f"The mask costs {costs[0]} points instead of" in text
    assert f"The control costs\n{costs[1]}, more than the mask in each row" in text and (table.masked_shrunk > 0).all()
    assert table.index[table.masked_shrunk_low > 0].tolist() == [10, 50], "as the page says"
    assert f"gains {table.masked_shrunk.min():.0f} to {table.masked_shrunk.max():.0f} points over the\ncontrol" in text
    table = pandas.read_csv(folder / "grid.csv")
    assert reduced.grid(table) in text
    assert (table[table.learning_rate == 1].seeds == 0).all(), "all diverge"
    learn = table[table[["mean", "masked"]].max(axis=1) > 10.5]
    ahead = learn[learn.masked > learn["mean"]]
    assert f"Of the {len(learn)} pairs" in text and f"the mask is ahead at {len(ahead)}, four of them" in text
    control, told = learn[learn.shrunk.notna()], re.sub(r"\s+", " ", text)
    helps = control[control.shrunk_mean > 0]
    assert f"ahead of the mean at {len(helps)} of {len(control)} pairs (at one it diverges)" in told
    assert learn[learn.shrunk.isna()][["learning_rate", "server_learning_rate"]].to_numpy().tolist() == [[0.1, 0.1]]
    assert (helps.server_learning_rate == 2).all() and (helps.masked_shrunk < 0).all()
    assert f"shorter steps gain {helps.shrunk_mean.min():.1f} to {helps.shrunk_mean.max():.1f} points" in told
    more = control[(control.server_learning_rate == 1.5) & (control.learning_rate < 0.05)].masked_shrunk
    assert "control by {:.1f} and {:.1f} points".format(*more) in told
    assert (control[control.server_learning_rate == 1.5].shrunk_mean < 0).all()
    four = ahead[ahead.server_learning_rate > 1].masked_mean
    assert len(four) == 4 and f"{four.min():.1f} to {four.max():.1f} points; in the thesis at 18 of 19" in text
    printed = [pair for pairs in reduced.GRID.values() for pair in pairs if pair[0]]
    assert (sum(masked > mean for mean, masked in printed), len(printed)) == (18, 19)


def test_the_page_has_table_4_4_of_the_thesis(script):
    folder = HERE / "results" / "fedltn"
    text = re.sub(r"\s+", " ", (page := (HERE / "docs" / "how-to" / "personal.md").read_text()))
    dirichlet, table = script("fedltn/dirichlet.py"), pandas.read_csv(folder / "dirichlet.csv")
    assert dirichlet.markdown(table) in page
    paired = pandas.read_csv(folder / "dirichlet_paired.csv")
    for gap in paired.itertuples():
        runs = table[table.alpha == gap.alpha].pivot(index="seed", columns="arm", values=gap.measure)
        difference = runs[gap.arm] - runs["LotteryFL 0.5"]
        half = stats.t.ppf(0.975, 4) * difference.sem()
        middle = difference.mean()
        assert (gap.difference, gap.low, gap.high) == pytest.approx((middle, middle - half, middle + half), abs=2e-3)
    assert ((paired.low < 0) & (paired.high > 0)).all()
    best, last = (paired[paired.measure == name].difference for name in ("best_mean", "trained_mean"))
    assert f"{-best.min():.1f} points below to {best.max():.1f} above LotteryFL by the best accuracies" in text
    assert f"{-last.min():.1f} below to {last.max():.1f} above by those after the last job" in text
    means = table.groupby(["alpha", "arm"]).mean()
    share = means.megabytes / means.megabytes.xs("FedAvg", level="arm")
    sparse = share[share.index.get_level_values("arm") != "FedAvg"]
    assert f"{100 * sparse.min():.0f} to {100 * sparse.max():.0f} % of FedAvg's megabytes" in text
    behind = [float(text.split(",")[0]) - means.best_mean[key] for key, text in dirichlet.PRINTED.items()]
    assert f"{min(behind):.0f} to {max(behind):.0f} points below the published ones" in text


def test_the_page_has_five_algorithms_of_the_thesis(script):
    table = pandas.read_csv(HERE / "results" / "masked_averaging" / "algorithms.csv")
    text = re.sub(r"\s+", " ", (page := (HERE / "docs" / "how-to" / "learning.md").read_text()))
    assert script("masked_averaging/algorithms.py").markdown(table) in page
    shown = script("masked_averaging/algorithms_drawing.py")
    rise, mnist, iid = table["mean"] - table.mean_half, table.data == "mnist", table.partition == "IID"
    scaffold = table.algorithm.str.startswith("SCAFFOLD")
    spans = [f"{rise[part & ~scaffold].min():.1f} to {rise[part & ~scaffold].max():.1f}"
             for part in (mnist, ~mnist & iid, ~mnist & ~iid)]  # fmt: skip
    told = "still rises by {} points on MNIST, by {} on Fashion-MNIST dealt IID and by {} with two classes"
    assert told.format(*spans) in text
    printed = {(*case, name): tuple(map(float, both.split(", "))) for case, cells in shown.PRINTED.items()
               if case[0] != "colours" for name, both in zip(shown.PRINTED_ALGORITHMS, cells, strict=True)}  # fmt: skip
    keys = list(table[["data", "partition", "algorithm"]].itertuples(index=False, name=None))
    off = table["mean"] - [printed.get(key, (float("nan"),))[0] for key in keys]
    assert f"at most {off[mnist & ~scaffold].abs().max():.1f} points from the published values on MNIST" in text
    prox = table.algorithm == "FedProx"
    assert f"and {off[~mnist & iid & ~scaffold & ~prox].abs().max():.1f} on Fashion-MNIST dealt IID" in text
    assert f"FedProx, which is {-off[~mnist & iid & prox].item():.1f} points below there" in text
    skewed = -off[~mnist & ~iid & ~scaffold]
    assert f"With two classes it is {skewed.min():.1f} to {skewed.max():.1f} points below" in text
    gains = [masked > mean for mean, masked in printed.values()]
    assert f"In the thesis it is ahead in {sum(gains)} of {len(gains)}." in text
    rows = table[table.seeds > 0]
    below, above = rows[rows.masked_mean_high < 0], rows[rows.masked_mean_low > 0]
    told = f"behind the mean in {(rows.masked_mean < 0).sum()} of the {len(rows)} rows"
    assert told in text and f"excludes zero in {len(below)} of them" in text and above.empty
    ahead = rows[rows.masked_mean > 0].masked_mean
    assert f"ahead in {len(ahead)}, by {ahead.max():.2f} points at most, and the intervals include zero" in text
    masked_step = rows.algorithm.isin(["FedAdam", "FedYogi"])
    assert f"it costs at most {-rows[masked_step].masked_mean.min():.1f} points and no interval" in text
    assert not below.algorithm.isin(["FedAdam", "FedYogi"]).any()
    assert f"with the others it costs up to {-rows[~masked_step].masked_mean.min():.1f}." in text
    slow = table.algorithm == "SCAFFOLD"
    assert f"{-off[slow].max():.1f} to {-off[slow].min():.1f} points below the published values at the rate" in text
    assert f"rises by {rise[slow].min():.1f} to {rise[slow].max():.1f} points in the second half. At 0.1" in text
    fast = table[table.algorithm == "SCAFFOLD, rate 0.1"].set_index(["data", "partition"])
    skewed = fast.xs("two classes, 90 %", level="partition").diverged
    assert (skewed == "mean 3; masked 3").all() and fast.diverged["mnist", "IID"] == "mean 2; masked 2"
    level = fast["mean"]["fashion_mnist", "IID"], table[~mnist & iid & (table.algorithm == "FedAvg")]["mean"].item()
    assert "ends at {:.1f} % there (FedAvg {:.1f})".format(*level) in text


def test_the_page_has_five_algorithms_on_coloured_mnist(script):
    folder = HERE / "results" / "masked_averaging"
    table = pandas.read_csv(folder / "algorithms_colours.csv").set_index("algorithm")
    curves = pandas.read_csv(folder / "algorithms_colours_curves.csv")
    text = re.sub(r"\s+", " ", (page := (HERE / "docs" / "how-to" / "learning.md").read_text()))
    drawing = script("masked_averaging/algorithms_drawing.py")
    assert drawing.markdown(table.reset_index()) in page and drawing.compared_markdown(curves) in page
    assert curves["round"].max() == 60 and (table.seeds == 3).all() and len(table) == 5
    late, slow = curves[curves["round"] >= 40], "SCAFFOLD"
    ends = late.groupby(["algorithm", "arm"])[["training_accuracy", "accuracy"]].mean().round(1).unstack("arm")
    assert (ends.accuracy["mean"] - table["mean"]).abs().max() < 0.06, "both are means of the same evaluations"
    behind = {name: ends[name]["mean"] - ends[name].masked for name in ("training_accuracy", "accuracy")}
    spans = [f"{each.min():.1f} to {each.max():.1f}" for each in behind.values()]
    assert "by {} points on training samples and by {} on test samples".format(*spans) in text
    assert all((each > 0).all() for each in behind.values())
    assert set(table.index[table.masked_mean_high < 0]) == {"FedProx", "FedAdam", "FedYogi"}, "as the page says"
    gain = (ends.accuracy.masked - drawing.compared(curves).as_accurate.round(1)).round(1)
    assert f"between {-gain.min():.1f} points below and {gain.max():.1f} above the means on test" in text
    mean = curves[curves.arm == "mean"].pivot(index="round", columns="algorithm", values="accuracy")
    rise = mean.loc[60] - mean.loc[45]
    others = rise.drop(slow)
    assert f"still rises by {others.min():.1f} to {others.max():.1f} points (SCAFFOLD: {rise[slow]:.1f})" in text
    printed = dict(zip(drawing.PRINTED_ALGORITHMS, drawing.PRINTED["colours", "two classes, 90 %"]))
    off = table["mean"] - pandas.Series({name: float(both.split(",")[0]) for name, both in printed.items()})
    others = off.drop(slow)
    assert f"The mean is {others.min():.1f} to {others.max():.1f} points above the published values" in text
    assert f"a rate of 0.01 here, it is {-off[slow]:.1f} below" in text


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
    page, printed = (PAPERS / "paper001.md").read_text(), capsys.readouterr().out.strip().splitlines()
    assert len(printed) == 14 and all(line in page for line in printed if not line.startswith(("| random", "| batch")))
    (tmp_path / "curves3_more_seeds.csv").write_bytes((PAPER / "curves3_authors.csv").read_bytes())
    with pytest.raises(SystemExit, match=r"seeds \[0, 1, 2, 3, 4\] stand in both"):
        level.main()


def test_the_sentences_on_the_level_say_what_the_table_says():
    table, text = pandas.read_csv(PAPER / "level.csv").set_index(["scheme", "sample", "mark"]), words("paper001.md")
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
    assert f"Further seeds (ten of `random`, ten of T = 4) are {told}, which may be chance" in text


def test_how_narrow_the_intervals_of_the_level_can_become():
    table, text = pandas.read_csv(PAPER / "level.csv").set_index(["scheme", "sample", "mark"]), words("paper001.md")
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


def test_the_page_has_membership_against_the_masked_mean(script):
    table = pandas.read_csv(HERE / "results" / "masked_averaging" / "membership.csv")
    text = re.sub(r"\s+", " ", (page := (HERE / "docs" / "how-to" / "learning.md").read_text()))
    assert script("masked_averaging/membership.py").markdown(table) in page
    means = table.groupby(["samples", "rounds", "arm"]).mean(numeric_only=True)
    whole, long = means.loc[(5000, 40)], means.loc[(200, 400)]
    gap = whole.training_accuracy["mean"] - whole.test_accuracy["mean"]
    assert f"After 40 rounds the mean is {gap:.1f} points more accurate on them" in text
    spans = [f"{each.min():.1f} to {each.max():.1f} %" for each in (whole.attack_accuracy, whole.threshold_accuracy)]
    assert "the regression guesses ({}), and the threshold is right in {}".format(*spans) in text
    assert (whole.attack_accuracy - 50).abs().max() < 1, "guesses"
    fits, attacks, thresholds = long.training_accuracy, long.attack_accuracy, long.threshold_accuracy
    assert f"the model of the mean classifies {fits['mean']:.0f} % of them correctly" in text
    assert f"that of the masked mean {fits['masked']:.0f} %" in text
    rule = (table.threshold_accuracy - 50 - (table.training_accuracy - table.test_accuracy) / 2).abs()
    assert rule.max() < 2 and "within 2 points, 50 % plus half of the difference" in text

    def paired(measure, arm, base):
        last = table[(table.samples == 200) & (table["rounds"] == 400)].pivot(
            index="seed", columns="arm", values=measure
        )
        gap = last[arm] - last[base]
        half = stats.t.ppf(0.975, len(gap) - 1) * gap.std() / len(gap) ** 0.5
        return f"{gap.mean():.1f}, {gap.mean() - half:.1f} to {gap.mean() + half:.1f}".replace("-", "−")

    told = f"The regression is right in {attacks['mean']:.1f} and {attacks['masked']:.1f} % (difference {{}}; published"
    assert told.format(paired("attack_accuracy", "masked", "mean")) in text
    told = f"the threshold in {thresholds['mean']:.1f} and {thresholds['masked']:.1f} % (difference {{}})"
    assert told.format(paired("threshold_accuracy", "masked", "mean")) in text
    assert f"ends at {fits['shrunk']:.0f} % on the training samples" in text
    told = f"the threshold is right in {thresholds['shrunk']:.1f} % (masked − control: {{}})"
    assert told.format(paired("threshold_accuracy", "masked", "shrunk")) in text


def test_the_page_on_topologies_has_the_tables(script):
    topology, page = script("topology/topology.py"), (HERE / "docs/how-to/topology.md").read_text()
    assert all(topology.markdown(study) in page for study in topology.STUDIES)
