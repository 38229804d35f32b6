"""Tables that pages show are those of the stored results, number by number.

Columns of printed values are not compared, where the results do not have them. Tables of scripts that write them as
text are compared in test_evidence.py and test_scripts.py.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from simfl.deployment.forecasting.measured_coverage import coverage
from simfl.deployment.forecasting.measured_coverage import table as coverage_table
from simfl.scenario import Scenario
from simfl.selection.theory import expected_cardinality
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
RESULTS = HERE / "results"
NUMBER = re.compile(r"(?:(?<![\w.)])-|[−+])?\d[\d,]*(?:\.\d+)?(?<!,)")


def shown(page, head, rows, number=0):
    """The rows, as many as are expected, of the table whose head begins like this, of several that with this number."""
    text = (HERE / "docs" / f"{page}.md").read_text()
    tables = re.findall(r"^\|.*\n\|[ \-|:]+\n((?:\|.*\n)+)", text, re.M)
    heads = re.findall(r"^(\|.*)\n\|[ \-|:]+\n", text, re.M)
    found = [table for first, table in zip(heads, tables, strict=True) if first.startswith(head)]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in found[number].splitlines()]
    assert len({tuple(line) for line in cells}) == rows
    return cells


def same(text, *values):
    """Whether a cell's numbers are these, each as far as its last digit; None and NaN are no numbers of the cell."""
    values = [value for value in values if value is not None]
    while values and pandas.isna(values[-1]):
        values.pop()
    numbers = NUMBER.findall(text)
    told = [float(number.replace("−", "-").replace(",", "")) for number in numbers]
    digits = [len(number.partition(".")[2]) for number in numbers]
    return len(told) == len(values) and all(
        abs(each - value) <= 0.5501 * 10**-places  # stored values are rounded, too
        for each, value, places in zip(told, values, digits, strict=True)
    )


def assert_same(cells, *values):
    """Of one row: cells and, for each, its values; None is a cell that is not compared."""
    assert len(cells) == len(values), cells
    for cell, expected in zip(cells, values, strict=True):
        if expected is not None:
            expected = expected if isinstance(expected, tuple | list) else (expected,)
            assert same(cell, *expected), f"{cells}: {cell} is not {expected}"


def csv(name, *index):
    table = pandas.read_csv(RESULTS / f"{name}.csv")
    return table.set_index(list(index)) if index else table


PAPER_001 = "papers/paper001"


PRINTED = [
    *(("3_authors", setting) for setting in ("IID", "non-IID, shared")),
    *(("4_authors", setting) for setting in ("IID", "non-IID, dropout by label")),
    *(("2_reduced", setting) for setting in ("IID", "non-IID")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "setting"), PRINTED)
def test_tables_of_paper_001(name, setting, monkeypatch):
    table = csv(f"paper001/table{name}")
    printed = imported(RESULTS / "paper001" / "printed.py", monkeypatch)
    lines = printed.markdown(int(name[0]), table[table.setting == setting])
    assert "\n".join(lines) in (RESULTS / "paper001" / "README.md").read_text()


def test_cardinality_by_T_of_paper_001():
    table = csv("paper001/tradeoff").set_index(["family", "T"])
    for T, *cells in shown(PAPER_001, "| T | batch: theory", 6):
        T = int(NUMBER.findall(T)[0])
        for family, (theory, simulated) in zip(("batch", "half"), (cells[:2], cells[2:]), strict=True):
            if (family, T) not in table.index:
                assert not theory and not simulated
                continue
            row = table.loc[(family, T)]
            error = 2 * row.standard_error or None
            assert_same([theory, simulated], row.expected_cardinality, (row.simulated_cardinality, error))


def test_quorum():
    table = csv("quorum/quorum", "policy", "selected")
    for policy, selected, *cells in shown("../results/quorum/README", "| policy | selected", len(table)):
        row = table.loc[(policy.replace("`", "").replace("T = ", "T="), int(selected))]
        assert_same(cells, row.time_s, row.time_to_target_s, row.test_accuracy, row.fairness_gap, row.late,
                    row.never_summed, row.privacy_semi_strong)  # fmt: skip
        assert row.reached == row.seeds == 5


def test_shared_links():
    table = csv("links/links").drop_duplicates(["way", "link"]).set_index(["way", "link"])
    rows = shown("../results/links/README", "| way | own links", 9)
    assert {cells[0] for cells in rows} == set(table.index.unique("way")) - {"plain"}
    for way, *cells in rows:
        seconds = [table.s_per_100_updates[way, link] for link in ("own", "10 Gbit/s", "1 Gbit/s", "0.3 Gbit/s")]
        assert_same(cells, *seconds, 100 * table.use_down[way, "1 Gbit/s"])


def test_oblivious_attack():
    table = csv("oblivious/attack", "strategy")
    rows = shown("experiments/oblivious", "| strategy | Laplaces left", len(table))
    assert [cells[0] for cells in rows] == list(table.index)
    for strategy, *cells in rows:
        row = table.loc[strategy]
        assert_same(cells, row.laplaces_predicted, row.laplaces_measured, row.r2_measured, row.r2_predicted)


def test_fedbuff_against_fedavg():
    table = csv("fedbuff/targets", "algorithm", "target").xs(0.95, level="target")
    rows = shown("experiments/fedbuff", "| | client updates", 4)
    assert {cells[0].replace("K = ", "K=") for cells in rows} == set(table.index)
    for algorithm, *cells in rows:
        row = table.loc[algorithm.replace("K = ", "K=")]
        updates, seconds = (row.client_updates, row.client_updates_sd), (row.time_s, row.time_s_sd)
        assert_same(cells, updates, seconds, (row.learning_rate, row.server_learning_rate))
        assert row.seeds_that_reached == row.seeds == 3
    ratio = table.client_updates / table.client_updates["FedBuff, 100 at a time, K=10"]
    ways = {"synchronous / FedBuff": "FedAvg", "unbuffered asynchronous / FedBuff": "FedAsync"}
    for name, _, here in shown("experiments/fedbuff", "| | paper | simfl", 2):
        assert same(here, ratio[f"{ways[name.partition(',')[0]]}, 100 at a time"])


def test_guarantees_of_fedbuff():
    """What docs/experiments/fedbuff.md says of them."""
    table = csv("fedbuff/privacy", "rule", "setting", "policy").loc["FedBuff"]
    found = table[["privacy_strong", "privacy_semi_strong", "privacy_weak_lower"]]
    assert (table.privacy_weak_lower == table.privacy_weak_upper).all()
    kept = {"batch T=3": [3, 3, 3], "half T=4": [2, 4, 4], "partition": [12, 12, 12], "random": [1, 1, 1]}
    for setting in ("drop_unit, common weights", "drop_unit, own weights, constant staleness"):
        assert all(found.loc[setting, policy].tolist() == values for policy, values in kept.items())
    lost = found.drop(["drop_unit, common weights", "drop_unit, own weights, constant staleness"], level="setting")
    assert len(lost.index.unique("setting")) == 4 and (lost == 1).all(axis=None)


def test_reality():
    table = csv("reality/summary", "rule", "repeat")
    rows = shown("../results/reality/README", "| rule | repeat | real mean", 6)
    assert len(rows) == len(table)
    for rule, repeat, *cells in rows:
        row = table.loc[(rule.lower(), int(repeat) - 1)]
        taus = row.kendall_tau, row.tau_of_two_simulations
        assert_same(cells, row.real_mean_s, row.simulated_mean_s, 100 * row.mean_error, row.real_p90_s,
                    row.simulated_p90_s, 100 * row.p90_error, *taus)  # fmt: skip


def test_epsilon_and_the_guarantee_of_each_policy():
    def named(policy):
        return policy.replace("half-batches, T = ", "half T=").replace("batches, T = ", "batch T=").removesuffix(", 24")

    table = csv("dp/policies", "policy")
    rows = shown("../results/dp/README", "| 96 clients, 100 rounds", len(table))
    assert {named(cells[0]) for cells in rows} == set(table.index)
    for policy, *cells in rows:
        row = table.loc[named(policy)]
        cells = [cell.replace("± .", "± 0.") for cell in cells]
        measures = "epsilon_max", "epsilon_median", "mean_cardinality"
        assert_same(
            cells, row.privacy_weak_lower, *((row[name], row[f"{name}_half_width"] or None) for name in measures)
        )


def rounded(value):
    """To two digits, from 100 on, as the page has it."""
    return float(f"{value:.2g}") if value >= 100 else value


def test_errors_of_figure_8():
    table = csv("attacks/figure8")
    for window, policy, *cells in shown("../results/attacks/README", "| window | policy | frozen (rate", 6):
        name = policy.removeprefix('"proposed" of the notebooks: ').replace("_partition, T = ", " T=")
        for cell, mode in zip(cells, ("frozen", "live"), strict=True):
            case = (table.window == int(window.split()[0])) & (table.policy == name) & (table["mode"] == mode)
            logs, expected = np.log(table[case].error), [np.exp(np.log(table[case].expected).mean())]
            half = stats.t.ppf(0.975, len(logs) - 1) * logs.std() / len(logs) ** 0.5
            values = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
            if (window, name) == ("40 rounds", "random"):
                values = sorted(np.exp(logs))
            elif (name, mode) == ("pairs of random", "live"):
                expected = []  # theory knows no drift of theirs
            assert len(logs) == 3 and same(cell, *map(rounded, [*values, *expected])), (cell, values)


def test_five_policies_with_four_protocols():
    table = csv("secagg/protocols").pivot(index="choice", columns="metric", values="mean")
    protocols = "plain", "secagg", "lightsecagg", "pairwise_ratchet"
    rows = shown("../results/secagg/README", "| policy | T | accuracy: plain", len(table) // len(protocols))
    lost = set()
    for policy, *cells in rows:
        name = policy.replace("`", "").replace(", T = 4", ":k=8,T=4")
        of = [table.loc[f"{protocol} / {name if ':' in name else f'{name}:k=8'}"] for protocol in protocols]
        plain, ratchet = of[0], of[-1]
        accuracy = 100 * plain.test_accuracy, 100 * ratchet.test_accuracy
        assert_same(cells, plain.guarantee_weak, accuracy, [row.bytes / 1e6 for row in of], [row.time_s for row in of])
        assert all(abs(row.test_accuracy - plain.test_accuracy) < 0.0015 for row in of[:-1])
        lost.add(round(ratchet.skipped - plain.skipped))
    assert lost == {0, 7, 8, 9}


def test_coverage_of_the_forecasts():
    rows = {(row.policy, row.unit, row.quantity): row for row in coverage_table() if row.fewest < 60}
    shares = []
    policies = {(policy, unit) for policy, unit, _ in rows} - {("every", 1)}
    for name, worlds, *cells in shown("experiments/forecast", "| policy | deployments", len(policies)):
        policy, _, unit = name.replace("`", "").partition(", T up to ")
        held = [rows[policy, int(unit or 1), quantity] for quantity in FORECAST]
        assert_same([worlds, *cells], held[0].cases, *(100 * row.share for row in held))
        shares += [100 * row.share for row in held]
    text, said = (
        " ".join((HERE / f"docs/{page}/forecast.md").read_text().split()) for page in ("experiments", "how-to")
    )
    assert f"{min(shares):.0f} to {max(shares):.0f} % held what then happened" in said
    every = [row for row in rows.values() if row.quantity != "certain"]
    outside = [f"({100 * row.share:.1f})" for row in every if not row.low <= 0.95 <= row.high]
    share = sum(row.share * row.cases for row in every) / sum(row.cases for row in every)
    assert f"Together {100 * share:.1f} % held. Of the {len(every)} shares for 12 to 40 clients {len(outside)} " in text
    assert all(text.count(share) == outside.count(share) for share in outside)
    exposure = {"exposed_half", "exposed_end", "a_client"}
    others = [row for row in every if row.unit == 1 or row.quantity not in exposure]
    without = sum(row.share * row.cases for row in others) / sum(row.cases for row in others)
    assert f"without these, too, {100 * without:.1f} % held" in text
    raw, groups, halves = [], [], worlds_of("half_partition")
    for policy, unit in policies:
        worlds = worlds_of(policy if policy != "batch_partition" else f"{policy}-T={unit}")
        inside = [2 * abs(row["places"][1] - 0.5) <= rows[policy, unit, "skipped"].level for row in worlds]
        groups.append(
            np.mean([held for held, row in zip(inside, worlds, strict=True) if row["availability"] == "groups"])
        )
        raw += (np.abs(np.array([row["places"] for row in worlds]) - 0.5) <= 0.475).mean(axis=0).tolist()
    assert f"Those of 95 of 100 futures held {100 * min(raw):.0f} to {100 * max(raw):.0f} %" in text
    assert f"where groups fail together: {100 * min(groups):.0f} to {100 * max(groups):.0f} % by policy" in text
    wider = [100 * row.level for row in every if row.level > 0.95]
    assert f"In {len(wider)} of the {len(every)} cells" in text and f"futures, {max(wider):.1f} at most" in text
    foretold, came = (np.mean([row[key][1] for row in halves]) for key in ("foretold", "happened"))
    assert f"{foretold:.1f} rounds without a sum were forecast on average; {came:.1f} came" in text


def worlds_of(name):
    lines = (RESULTS / "forecast" / f"{name}.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "places" in row]


FORECAST = ("cardinality", "skipped", "exposed_end", "a_client", "rank_half", "fairness_gap")


def test_coverage_of_forecasts_of_many_clients():
    text = " ".join((RESULTS / "forecast/README.md").read_text().split())
    large = {(row.policy, row.unit, row.quantity): row for row in coverage_table() if row.fewest >= 60}
    assert f"{min(row.fewest for row in large.values())} to {max(row.most for row in large.values())} clients" in text
    outside = [f"({100 * row.share:.0f})" for row in large.values() if not row.low <= 0.95 <= row.high]
    assert f"{len(outside)} of the {len(large)} shares" in text
    assert all(text.count(share) == outside.count(share) for share in outside)
    for quantity in dict.fromkeys(quantity for *_, quantity in large):
        rows = [row for row in large.values() if row.quantity == quantity]
        cases = sum(row.cases for row in rows)
        held = round(sum(row.share * row.cases for row in rows))
        low, high = stats.binomtest(held, cases).proportion_ci()
        words = f"{100 * held / cases:.1f} % ({100 * low:.1f} to {100 * high:.1f})"
        assert (words in text) == (not low <= 0.95 <= high) and f"of all {cases} deployments together" in text
    for name, worlds, *cells in shown("../results/forecast/README", "| policy | deployments", 8):
        policy, _, unit = name.replace("`", "").partition(", T up to ")
        held = [large[policy, int(unit or 1), quantity] for quantity in FORECAST]
        assert_same([worlds, *cells], held[0].cases, *(100 * row.share for row in held))


def test_forecasts_of_devices_that_the_model_does_not_have():
    kinds = [(wrong, policy) for wrong in ("drift", "leaving", "rest")
             for policy in ("random", "weighted", "batch_partition-T=4", "half_partition")]  # fmt: skip
    quantities = list(coverage("random", 1, 24))
    named, counts, hopeful, fewest = {}, [], [], 1.0
    for (wrong, policy), (_, _, *cells) in zip(
        kinds, shown("../results/forecast/README", "| devices | policy", 12), strict=True
    ):
        rows = worlds_of(f"{policy}-{wrong}")
        name, _, unit = policy.partition("-T=")
        measured = coverage(name, int(unit or {"half_partition": 4}.get(name, 1)), 24)
        inside = 2 * np.abs(np.array([row["places"] for row in rows]) - 0.5)
        inside = inside <= [measured[quantity].level for quantity in quantities]
        held = [inside[:, quantities.index(quantity)].mean() for quantity in FORECAST]
        share = 100 * np.mean([warned(row) for row in rows])
        assert_same(cells, share, *(100 * each for each in held))
        named.setdefault(wrong, []).append(share)
        fewest = min(fewest, *held)
        counts.append(len(rows))
        if wrong == "leaving" and "partition" in policy:  # clients a round, and rounds without a sum
            hopeful += held[:2]
            assert all(row["places"][0] <= 0.975 and row["places"][1] >= 0.025 for row in rows)
    text, page = (
        " ".join(path.read_text().split())
        for path in (RESULTS / "forecast/README.md", HERE / "docs/experiments/forecast.md")
    )
    assert f"as few as {100 * fewest:.0f} % did" in (HERE / "docs/how-to/forecast.md").read_text()
    others = named["drift"] + named["rest"]
    assert f"{min(named['leaving']):.0f} to {max(named['leaving']):.0f} % where clients leave, " in text
    assert f"{min(others):.0f} to {max(others):.0f} % of the others, of {min(counts)} to {max(counts)} " in text
    assert f"±{100 * 1.96 * 0.5 / min(counts) ** 0.5:.0f} points" in text
    assert f"right in {100 * min(hopeful):.0f} to {100 * max(hopeful):.0f} %" in text
    unchanged = [row for name in ("all", "random", "weighted", "partition", "half_partition",
                                  *(f"batch_partition-T={unit}" for unit in (2, 4, 8)))
                 for row in worlds_of(name) if "left" in row]  # fmt: skip
    sticky, others = (100 * np.mean([warned(row) for row in unchanged if (row["availability"] == "sticky") == which])
                      for which in (True, False))  # fmt: skip
    assert f"of {len(unchanged)} logs without any such change, {sticky:.0f} % where clients stay as they" in text
    assert f"and {others:.0f} % else" in text
    assert f"of {min(named['leaving']):.0f} to {max(named['leaving']):.0f} % of the logs" in page


def warned(row):
    return row["drift"] < 0.01 or row["left"] < 0.05


def scheme(cell):
    return cell.replace("*", "").replace("T = ", "T=")


def test_fairness_by_two_rules_of_paper_001():
    table = csv("paper001/fairness", "rules", "scheme")
    gaps = ("fairness_gap", "fairness_gap_unskipped")
    for name, skipped, *cells in shown("../results/paper001/README", "| | skipped rounds", 6):
        rows = [table.loc[rules, scheme(name)] for rules in ("paper", "authors")]
        assert same(skipped, rows[0].skipped, rows[0].skipped_half_interval or None)
        if cells[2:] == ["the same", "the same"]:
            assert rows[0].equals(rows[1])
            cells, rows = cells[:2], rows[:1]
        assert_same(cells, *((row[gap], row[f"{gap}_half_interval"]) for row in rows for gap in gaps))


def test_skipped_rounds_of_paper_001():
    table = csv("paper001/skipped")
    for case, *cells in shown("../results/paper001/README", "| rounds skipped (`skipped.csv`)", 10):
        data, middle, name = (scheme(part).replace("`", "") for part in case.split(", "))
        setting = middle.replace("not IID", "non-IID") if "IID" in middle else "IID"
        n, k = (int(middle.partition(f"{letter} = ")[2] or usual) for letter, usual in (("N", 120), ("K", 12)))
        name = f"batch {name}" if name.startswith("T=") else name
        found = table[(table.data == data) & (table.setting == setting) & (table.clients == n) & (table.k == k)]
        (row,) = found[found.scheme == name].itertuples()
        (stored, of), theory, (ours, of_ours) = (cell.replace("*", "").partition(" of ")[::2] for cell in cells)
        assert same(stored, *dict.fromkeys((row.lowest, row.highest)))
        assert same(theory[0], row.expected, row.expected_lower, row.expected_upper)
        assert same(ours, *dict.fromkeys((row.simfl_lowest, row.simfl_highest)))
        assert same(of or "1,000", row.rounds) and same(of_ours or of or "1,000", row.simfl_rounds)


def test_bound_of_paper_001():
    table = csv("paper001/convergence", "split", "scheme", "rounds")
    splits = table.index.unique("split")
    assert list(splits) == ["IID", "sorted"]
    for name, *cells in shown("../results/paper001/README", "| | IID: bound", 6):
        for split, (bound, measured) in zip(splits, (cells[:2], cells[2:]), strict=True):
            both = [table.loc[split, scheme(name), after] for after in (100, 1000)]
            assert same(bound, *(row.bound for row in both))
            assert same(measured, *(value for row in both for value in (row.measured, row.half_interval)))


def test_accuracy_of_basecagg():
    table = csv("basecagg/differences", "setting")
    rows = shown("papers/paper003", "| | seeds | FedBuff", 3)
    for (case, *cells), setting in zip(rows, ("polynomial", "constant", "LeNet, polynomial"), strict=True):
        row = table.loc[setting]
        assert setting.rpartition(", ")[2] in case and case.startswith("LeNet" if "LeNet" in setting else "perceptron")
        assert_same(cells, row.seeds, row.FedBuff, row.BASecAgg, (row.difference, row.lower, row.upper), row.largest)
    scales = csv("basecagg/scales").query("network == 'perceptron'").groupby("exponent")[["test_accuracy", "wrapped"]]
    accuracy, wrapped = shown(
        "papers/paper003", "| c_l | 2⁰ | 2² | 2⁴ | 2⁶ | 2⁸ | 2¹⁰ | 2¹² | 2¹⁶ | 2²⁰ | 2²² | 2²⁴ | 2²⁶ | 2²⁸ | 2³⁰ |", 2
    )
    means = scales.mean()
    assert means.index.tolist() == [0, 2, 4, 6, 8, 10, 12, 16, 20, 22, 24, 26, 28, 30]
    assert_same(accuracy[1:], *means.test_accuracy)
    assert_same(wrapped[1:], *means.wrapped)


USUAL, GENTLE = "5 passes, rate 1", "50 passes, rate 0.1"
NOISES = {
    "printed: client 1, 2, 3": (USUAL, 0.02, "published"),
    "published noise, α = 0.02": (USUAL, 0.02, "published"),
    "α = 0.015": (USUAL, 0.015, "published"),
    "α = 0.03, as in the scenarios": (USUAL, 0.03, "published"),
    "α = 0.02, 50 passes at rate 0.1 instead of 5 at 1 (20 seeds)": (GENTLE, 0.02, "published"),
    "calibrated noise, α = 0.02": (USUAL, 0.02, "calibrated"),
}
FRACTION = re.compile(r"(?<![\d.])(?=\.\d)")
"""Where a leading 0 is missing."""


def test_table_52_of_privacyfl():
    table = csv("privacyfl/table52")
    for name, *cells in shown("../results/privacyfl/README", "| | S1 | S2", len(NOISES)):
        training, alpha, noise = NOISES[name]
        for row, cell in zip(("S1", "S2", "S3", "S4"), cells, strict=True):
            case = (table.training == training) & (table.row == row) & (table.client != "none")
            if row != "S1":  # where each trains alone there is no noise
                case &= (table.alpha == alpha) & (table.noise == noise)
            elif (alpha, noise) != (0.02, "published"):
                assert not cell
                continue
            found = table[case].sort_values("client")["printed" if name.startswith("printed") else "accuracy"]
            assert same(FRACTION.sub("0", cell), *found), (name, row, cell)


def test_paired_differences_of_privacyfl():
    table = csv("privacyfl/table52_paired").query("training == '5 passes, rate 1' and noise == 'published'")
    table = table.set_index(["alpha", "difference", "client"])
    for name, *cells in shown("../results/privacyfl/README", "| | α = 0.015 | 0.02 | 0.03 |", 5):
        difference, _, clients = name.partition(", ")
        for alpha, cell in zip((0.015, 0.02, 0.03), cells, strict=True):
            of = [table.loc[(alpha, difference, client)] for client in NUMBER.findall(clients)]
            cell = FRACTION.sub("0", cell)
            assert same(cell, *(value for row in of for value in (row.accuracy, row.half_width))), (name, cell)


def test_what_policies_claim_and_what_is_seen():
    tables = [csv(f"selection/{data}", "policy") for data in ("mnist", "cifar10")]
    for policy, _, *cells in shown("papers/selection", "| policy | its paper", 4):
        for table, cell in zip(tables, cells, strict=True):
            (name,) = [name for name in table.index if name.startswith(policy.strip("`")) and "guarded" not in name]
            row, random = table.loc[name], table.loc["random"]
            if policy == "`power_of_choice`":
                assert "no fewer rounds" in cell and "times the time" in cell
                slower = row.time_to_target_s / random.time_to_target_s
                assert same(cell, row.rounds_to_target, random.rounds_to_target, slower)
            else:
                assert cell == f"{random.time_to_target_s / row.time_to_target_s:.1f} times"


def test_figure_3_of_paper_001():
    table = csv("paper001/figure3", "scheme", "round")
    text = {name: cells[-1] for name, *cells in shown(PAPER_001, "| | paper, Figure 3", 6)}
    weak = table.privacy_weak_upper
    random = [value for after in (109, 111, 116) for value in (weak["random", after - 1], after)]
    assert same(text["random: multi-round privacy (weak)"], *random, weak["random", 119], 120)
    assert same(text["weighted"], weak["weighted", 100], 101, weak["weighted", 119], 120)
    assert same(text["partition"], 12) and (weak["partition"] == 12).all()
    batches = [f"batch T={size}" for size in (6, 4, 3)]
    assert [weak[name].min() for name in batches] == [weak[name, 199] for name in batches] == [6, 4, 3]
    assert text["batch T = 6, 4, 3"] == "fall to 6, 4, 3 and stay"
    last = table.xs(199, level="round")
    theory = csv("paper001/tradeoff", "scheme").expected_cardinality
    schemes = ["partition", *batches]
    here, there = text["cardinality: partition, T=6, T=4, T=3"].split("; theory ")
    assert same(here, *last.mean_cardinality[schemes]) and same(there, *theory[schemes])
    gaps, batch = last.fairness_gap, last.fairness_gap[batches]
    assert same(text["fairness gap after 200 rounds"], gaps["random"], batch.min(), batch.max(), gaps["partition"],
                gaps["weighted"])  # fmt: skip


def test_batches_and_halves_in_theory():
    for t, *cells in shown("papers/paper002", "| T | batch: rows", 4):
        sizes, cardinalities, guarantees = [], [], []
        for policy in ("batch_partition", "half_partition"):
            changes = [f"selection={policy}:T={t}", "devices.availability.dropout=0.3"]
            known = expected_cardinality.theory(Scenario.load(HERE / "scenarios" / "paper001_privacy.yaml", changes))
            sizes.append(known["family_size"])
            cardinalities.append(known["expected_cardinality"])
            guarantees.append(tuple(known["guarantee"][kind] for kind in ("strong", "semi_strong", "weak")))
        assert_same(cells, sizes[0], cardinalities[0], sizes[1], cardinalities[1], *guarantees)


def test_memory_of_a_client_on_the_page_of_scale():
    peak = csv("referee/memory").groupby(["scenario", "clients"]).peak_bytes.median()
    grown = {name: (peak[name, 10**6] - peak[name, 10**5]) / (10**6 - 10**5) for name in peak.index.unique("scenario")}
    text = " ".join((HERE / "docs/reference/scale.md").read_text().split())
    idle, learning = (f"{grown[name]:.0f}" for name in ("million_clients", "million_learning"))
    assert f"by {idle} bytes a client where nothing is learned" in text
    assert f"by {learning} bytes a client where they learn" in text
    assert f"learning clients counts {learning} bytes each" in text
    assert f"that learn take {peak['million_learning', 10**6] * 1e-9:.1f} GB in all" in text


def test_attackers_and_what_they_lose(monkeypatch):
    """The tables and the settings of results/attackers/README.md; the means are those of the runs."""
    page, study = "../results/attackers/README", imported(RESULTS / "attackers/attackers.py", monkeypatch)
    means = csv("attackers/attackers", "part", "attack", "aggregate", "where")
    runs = csv("attackers/seeds").groupby(["part", "attack", "aggregate", "where"], sort=False)
    for name in ("test_accuracy", "attacker_share", "selected_share", "fairness_gap"):
        assert np.allclose(runs[name].mean(), means[name], atol=6e-5) and (runs[name].count() == study.SEEDS).all()
        assert np.allclose(runs[name].std(), means[f"{name}_std"], atol=6e-5)

    def cell(*key):
        row = means.loc[key]
        return row.test_accuracy, row.test_accuracy_std, row.attacker_share

    for cells in shown(page, "| attack |", 4):
        attack = cells[0]
        assert_same(cells, None, *(cell("aggregates", attack, rule, "apart") for rule in study.AGGREGATES))
    scenario = Scenario.parse(study.SCENARIO, "attackers")
    assert (scenario.clients, scenario.training.rounds, scenario.selection.k, scenario.selection.T) == (40, 20, 20, 4)
    assert scenario.learning.data.samples == 2000 and scenario.learning.partition.beta == 1
    assert len(study.APART.split(",")) == 8 and study.TOGETHER == "0-7"


def test_units_as_buckets_and_what_liars_change(monkeypatch):
    """The tables of units and of others' privacy; they follow from the runs, and the figure's table is theirs."""
    page, study = "../results/attackers/README", imported(RESULTS / "attackers/units.py", monkeypatch)
    drawing = imported(RESULTS / "attackers/attack_figure.py", monkeypatch)
    table, runs = csv("attackers/damage"), drawing.seeds()
    pandas.testing.assert_frame_equal(drawing.damages(runs).round(4), table, check_dtype=False, atol=2e-4)
    lies = drawing.lies(runs).round(4)
    pandas.testing.assert_frame_equal(lies, csv("attackers/liars"), check_dtype=False, atol=2e-4)
    assert (runs.groupby(drawing.KEYS).seed.nunique() == 5).all() and (table.seeds == 5).all()
    cells = table.set_index(drawing.KEYS)
    for row in shown(page, "| T, units spoiled if apart |", len(study.SIZES)):
        T = int(row[0].split(",")[0])
        assert row[0] == f"{T}, {4} of {40 // T}"
        attacks = ("inner product", "apart"), ("inner product", "together"), ("sign flip", "apart")
        found = [cells.loc[("units", attack, "geometric median", where, T)] for attack, where in attacks]
        assert_same(row, None, *((each.damage, each.damage_lower, each.damage_upper) for each in found))
    means = table[(table.part == "units") & (table.aggregate == "mean")].groupby(["attack", "where"]).damage
    assert (means.max() - means.min() < 1e-3).all(), "the mean of units is the mean"
    backdoor = shown(page, "| backdoor |", 1)[0]
    assert_same(backdoor, None, *(tuple(cells.loc[("aggregates", "backdoor", rule, "apart", 1)][
        ["success", "success_lower", "success_upper"]]) for rule in study.AGGREGATES))  # fmt: skip
    changed = lies.set_index("measure")
    for cells_of, name in zip(shown(page, "| of an honest client |", 4), study.SHOWN, strict=True):
        row = changed.loc[name]
        assert_same(cells_of, None, row.honest, row.lying, (row.change, row.lower, row.upper))
