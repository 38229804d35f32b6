"""docs/papers/not-so.md: its numbers are those of small programs that use nothing of simfl."""

import re
from math import comb
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
FOLDER = HERE / "results" / "theorems"


@pytest.fixture
def script(monkeypatch):
    return imported(FOLDER / "not_so.py", monkeypatch)


@pytest.fixture
def table():
    return pandas.read_csv(FOLDER / "not_so.csv")


@pytest.fixture
def value(table):
    return lambda claim, quantity: table[(table.claim == claim) & (table.quantity == quantity)].value.item()


def test_the_script_uses_nothing_of_simfl():
    names = ("not_so", "not_so_thesis", "fairness_limits", "share_limits")
    text = "".join((FOLDER / f"{name}.py").read_text() for name in names)
    assert not re.search(r"^\s*(import|from) simfl", text, re.MULTILINE)


def test_the_table_is_what_the_script_computes(script, table):
    again = script.rows(list(script.CLAIMS))
    pandas.testing.assert_frame_equal(again, table, check_dtype=False, rtol=1e-5)


def test_no_number_of_colluders_leaves_what_a_7_says(value, table):
    assert value("collusion_sum", "n of 2 ... 5,000 with (n^2 - n + 1) / n > n") == 0
    formula = value("collusion_sum", "the same, by its formula 2 m C(2m, m) / 4^m")
    drawn = table[table.quantity == "the same, drawn 20,000 times"].iloc[0]
    assert drawn.low < formula < drawn.high < 0.2 * 99
    assert [2 * m * comb(2 * m, m) / 4**m for m in (1, 2)] == [1, 1.5], "E|X| = 1 and E|X + Y| = 3/2 of Laplace laws"


def test_pooling_leaves_one_laplace_variable_where_ninety_nine_are_claimed(table):
    rows = table[table.claim == "pooled"].set_index("quantity")
    measured = "residual variance in those of one Laplace variable"
    naive, pooled = rows.loc[f"claimed: naive, {measured}"], rows.loc[f"pooled, {measured}"]
    assert naive.low < 99 < naive.high and pooled.low < 0.99 < pooled.high


def test_the_stored_runs_of_six_skip_less_than_six_can(table):
    rows = table[table.claim == "skipped"].set_index("quantity")
    assert rows.value["stored runs of T = 6, most unchanged rounds"] < rows.low.dropna().item()


def test_half_batches_more_than_double_the_rows_unless_k_is_t(value):
    cases = [(6, 4, 2), (24, 4, 4), (24, 8, 4), (24, 12, 4)]
    name = "half rows for each batch row, N = {}, K = {}, T = {}"
    assert [value("half_rows", name.format(*case)) for case in cases] == [3, 2, 3.6, 5.6]
    n, k, t = 24, 8, 4
    assert 2 * n / k * comb(2 * n // t - k // t - 1, k // t - 1) / comb(n // t, k // t) == pytest.approx(3.6)


def test_the_mean_of_models_has_n_times_the_epsilon_that_is_stated(value):
    for n in (3, 10):
        assert value("mean_noise", f"epsilon stated as 1, n = {n}") == pytest.approx(n)
    x = np.linspace(-1, 1, 9)
    ratio = np.abs(x - 1) - np.abs(x)  # log density ratio of two unit Laplace laws one apart: 1 at most, and reached
    assert np.abs(ratio).max() == 1


def test_six_signs_of_ten_do_not_pass_a_mask_of_0_4(value):
    assert value("mask_stability", "share of clients with positive mean, above tau = .4") > 0.4
    assert value("mask_stability", "agreement of ten signs, six alike") < 0.4
    assert value("mask_stability", "agreement of ten signs, seven alike") == 0.4
    for deviation in (0.1, 0.01):
        assert value("mask_stability", f"share of draws whose mask is below 1, deviation {deviation}") > 0.999


def test_the_rate_of_proposition_5_is_below_the_gradient(value):
    for rate in (0.5, 0.01):
        both = value("masked_rate", f"claimed bound, both terms, rate {rate}")
        assert both == pytest.approx(1 - (1 - rate) ** 2 + 2 * 0.1 * rate * (0.1**2 + 1), rel=1e-5)
        assert both < value("masked_rate", f"squared gradient, rate {rate}, T = 1") == 1


def test_no_constant_apart_from_sigma_bounds_the_drift_of_a_client_by_the_common_gradient(value):
    left = value("drift", "|Delta - grad F_1|^2")
    assert value("drift", "|grad f|^2") == 0 < left
    for sigma in (0.1, 0.01):
        least = value("drift", f"least C with C (sigma^2 + |grad f|^2) above it, sigma = {sigma}")
        assert least == pytest.approx(np.tanh(1) ** 2 / sigma**2, rel=1e-5)
        assert least <= value("drift", f"4 G^2 / sigma^2, which is one for any sigma, sigma = {sigma}")


def test_algorithm_4_goes_away_from_the_optimum_and_scaffold_to_it(value):
    for name in ("as printed", "server's sign turned", "both signs turned"):
        assert value("scaffold_signs", f"{name}: distance from the optimum") == 1e6
    assert value("scaffold_signs", "both signs turned, correction scaled by eta: distance from the optimum") < 1e-9


def test_gamma_of_theorem_2_is_negative_as_printed(value):
    assert value("summed_minima", "Gamma as printed") < 0


def test_sentences_of_the_thesis_beside_its_own_tables(value):
    assert value("printed_tables", "Table 3.2: pairs in which the mask is behind") == 2
    assert value("printed_tables", "Table B.4: pairs in which the mask is behind") == 1
    assert value("printed_tables", "Table B.4: pairs") == 20
    best = value("printed_tables", "Table 4.1, CIFAR-10: lowest client, best of FedLTN")
    assert best < value("printed_tables", "Table 4.1, CIFAR-10: lowest client, FedAvg")
    assert value("printed_tables", "Table B.7: FedAvg at the best rates of Table B.5 (1, .01)") < value(
        "printed_tables", "Table B.7: FedAvg at (1, .1)"
    )


def test_the_page_has_the_numbers_of_the_tables(table):
    page = re.sub(r"\s+", " ", (HERE / "docs" / "papers" / "not-so.md").read_text())
    assert len(page.split()) <= 1500
    limits = pandas.read_csv(FOLDER / "fairness_limits.csv")
    last = limits[(limits.dropouts == "unequal") & (limits["rounds"] == 30_000)]
    means = last.groupby(["rule", "T"])[["gap", "floor"]].mean()
    for rule in ("text", "least_total", "uniform"):
        for column in ("floor", "gap"):
            assert ", ".join(f"{means.loc[(rule, t), column]:.3f}" for t in (3, 4, 6)) in page, (rule, column)
    rows = table.set_index("quantity")
    pooled = rows.loc["pooled, residual variance in those of one Laplace variable"]
    assert f"a variance of {pooled.value:.2f} ({pooled.low:.2f} to {pooled.high:.2f}) of one is left" in page
    skips = rows.loc["T = 6 skips, mean and central 99.8 % of draws"]
    assert f"skip {skips.value:.0f} of 1,000 rounds (99.8 % of draws: {skips.low:.0f} to {skips.high:.0f})" in page
    for quantity, text in (
        ("the same, by its formula 2 m C(2m, m) / 4^m", "of 99 it is {:.1f} λ"),
        ("longest digit", "(up to {:.2f})"),
        ("|Delta - grad F_1|^2", "the left {:.2f}"),
        ("claimed bound, 2 L (f(w_0) - f(w_1)) / T, rate 0.5", "the bound {:.2f} + C (σ² + 1)"),
        ("claimed bound, both terms, rate 0.5", "with σ = C = 0.1 it is {:.2f}"),
        ("claimed bound, both terms, rate 0.01", "which it allows, {:.2f}"),
        ("C(40, 4)", "C(40, 4) is {:,.0f}"),
    ):
        assert text.format(rows.value[quantity]) in page, quantity
    masked = pandas.read_csv(HERE / "results" / "masked_averaging" / "algorithms.csv")
    plain = masked[masked.algorithm == "FedAvg, no momentum"]
    assert (plain.masked_mean_high < 0).all()
    one, two, three, four = (f"{each:.2f}".replace("-", "−") for each in plain.masked_mean)
    assert f"{one}, {two}, {three} and {four} points" in page
    heavy = masked[masked.algorithm == "FedAvg"]
    one, two, three, four = (f"{each:.2f}".replace("-", "−") for each in heavy.masked_mean)
    assert f"{one}, {two}, {three} and {four}" in page
    assert f"{['no', 'one', 'two'][(heavy.masked_mean_high > 0).sum()]} of these four intervals include 0" in page
    last = pandas.read_csv(HERE / "results" / "fedltn" / "high_lenet.csv").set_index("arm").trained_mean
    assert f"FedAvg is at {last['FedAvg']:.1f} here" in page
    for name, sizes in (("FedLTN", ("0.1", "0.5", "0.9")), ("LotteryFL", ("0.1", "0.5"))):
        numbers = [f"{last[f'{name} {size}']:.1f}" for size in sizes]
        assert f"{name} {', '.join(sizes)} at {', '.join(numbers)}" in page
    assert (last.drop("FedAvg") > last["FedAvg"] + 20).sum() == 4 and "for four of the five sparse arms" in page
    text = limits[(limits.rule == "text") & (limits.dropouts == "unequal") & (limits["rounds"] == 30_000)]
    draws = text[text["T"] == 6].gap
    assert f"one draw's gap by the text's rule at T = 6 is {draws.min():.3f} to {draws.max():.3f}" in page
    best = pandas.read_csv(HERE / "results" / "fedltn" / "high_lenet_best.csv")
    best = best[best["rounds"] == 2000]
    for arm, column in (("FedAvg", "best_mean"), ("FedLTN 0.9", "best_mean")):
        runs = best[best.arm == arm][column]
        half = stats.t.ppf(0.975, len(runs) - 1) * runs.sem()
        assert f"{runs.mean():.1f} ± {half:.1f}" in page, (arm, column)


def test_every_command_of_the_page_is_one(script):
    page = (HERE / "docs" / "papers" / "not-so.md").read_text()
    for name in re.findall(r"not_so\.py (\w+)`", page):
        assert name in script.CLAIMS
    assert {*re.findall(r"not_so\.py (\w+)`", page)} == {*script.CLAIMS} - {"half_rows"}, "each claim is on the page"
    assert "not_so.py half_rows`" in (HERE / "docs" / "papers" / "index.md").read_text(), "which holds but where K = T"
    for path in re.findall(r"`(?:python )?(results/\S+\.(?:py|csv))", page):
        assert (HERE / path).exists(), path
