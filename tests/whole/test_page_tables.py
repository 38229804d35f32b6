"""Tables that pages show are those of the stored results, number by number.

Tables of scripts that write them as text are compared in test_evidence.py and test_scripts.py.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
from scipy import stats

from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
RESULTS = HERE / "results"
NUMBER = re.compile(r"[−+]?\d[\d,]*(?:\.\d+)?(?<!,)")


def shown(page, head, number=0):
    """The rows below the page's tables with this beginning of a head, of that with this number, cell by cell."""
    text = (HERE / "docs" / f"{page}.md").read_text()
    tables = re.findall(r"^\|.*\n\|[ \-|:]+\n((?:\|.*\n)+)", text, re.M)
    heads = re.findall(r"^(\|.*)\n\|[ \-|:]+\n", text, re.M)
    found = [table for first, table in zip(heads, tables, strict=True) if first.startswith(head)]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in found[number].splitlines()]


def same(text, *values):
    """Whether a cell's numbers are these, each as far as its last digit."""
    numbers = NUMBER.findall(text)
    values = [value for value in values if value is not None and not pandas.isna(value)]
    if len(numbers) != len(values):
        return False
    for number, value in zip(numbers, values, strict=True):
        digits = len(number.partition(".")[2])
        told = float(number.replace("−", "-").replace(",", ""))
        if abs(told - value) > 0.5501 * 10**-digits:  # stored values are rounded, too
            return False
    return True


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


def spread(row, name):
    """Mean and half of its interval."""
    return row[name], row[f"{name}_high"] - row[name]


def interval(row, name):
    """Estimate and interval."""
    return row[name], row[f"{name}_low"], row[f"{name}_high"]


ARMS = "| method | after: mean"


@pytest.mark.parametrize(("name", "head", "number"), [
    ("low_resnet8", ARMS, 0), ("low_lenet", ARMS, 1), ("high_lenet", "| method | seeds", 0),
    ("high_lenet_400_rounds", ARMS, 2),
])  # fmt: skip
def test_arms_of_fedltn(name, head, number):
    table, rows = csv(f"fedltn/{name}", "arm"), shown("how-to/personal", head, number)
    assert {cells[0] for cells in rows} == set(table.index)
    for arm, *cells in rows:
        row = table.loc[arm]
        seeds = [int(row.seeds)] if "seeds" in head else []
        means = [spread(row, measure) for measure in ("trained_mean", "trained_min", "before_mean")]
        assert_same(cells, *seeds, *means, (row.pruned_20, row.pruned_last), row.megabytes, row.share, None)


@pytest.mark.parametrize(
    ("number", "name"), list(enumerate(["low_resnet8", "low_lenet", "high_lenet", "high_lenet_400_rounds"]))
)
def test_paired_differences_of_fedltn(number, name):
    table = csv(f"fedltn/{name}_paired", "arm", "against")
    for difference, *cells in shown("how-to/personal", "| difference | after: mean", number):
        if difference.startswith("the same"):
            difference = "FedLTN 0.9, no threshold − FedLTN 0.9, rewinding, no threshold"
        row = table.loc[tuple(difference.split(" − "))]
        assert_same(cells, *(interval(row, measure) for measure in ("trained_mean", "trained_min", "before_mean")))


def test_course_of_fedltn():
    table = csv("fedltn/high_lenet_course", "arm", "rounds")
    for arm, *cells in shown("how-to/personal", "| after training, mean (training loss)"):
        rows = [table.loc[arm, rounds] for rounds in (500, 1000, 1500, 2000)]
        assert_same(cells, *((row.trained_mean, row.train_loss) for row in rows))


PRINTED = [
    *(("3_ablation_200_rounds", f"N={n},K={k}") for n, k in ((60, 12), (240, 12), (120, 6), (120, 24))),
    *(("3_authors", setting) for setting in ("IID", "non-IID, shared")), ("3_more_seeds", "IID"),
    *(("4_authors", setting) for setting in ("IID", "non-IID, dropout by label")),
    *(("2_reduced", setting) for setting in ("IID", "non-IID")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "setting"), PRINTED)
def test_tables_of_paper_001(name, setting, monkeypatch):
    table = csv(f"paper001/table{name}")
    printed = imported(RESULTS / "paper001" / "printed.py", monkeypatch)
    lines = printed.markdown(int(name[0]), table[table.setting == setting])
    assert "\n".join(lines) in (HERE / "docs" / "papers" / "paper001.md").read_text()


def test_cardinality_by_T_of_paper_001():
    table = csv("paper001/tradeoff").set_index(["family", "T"])
    for T, *cells in shown("papers/paper001", "| T | batch: theory"):
        T = int(NUMBER.findall(T)[0])
        for family, (theory, simulated) in zip(("batch", "half"), (cells[:2], cells[2:]), strict=True):
            if (family, T) in table.index and theory:
                row = table.loc[(family, T)]
                error = 2 * row.standard_error if "±" in simulated else None
                assert_same([theory, simulated], row.expected_cardinality, (row.simulated_cardinality, error))
            else:
                assert not theory and not simulated


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_compression(data, monkeypatch):
    written = imported(RESULTS / "compression" / "compression.py", monkeypatch).markdown(csv(f"compression/{data}"))
    assert written in (HERE / "docs" / "how-to" / "compression.md").read_text()


def test_quorum():
    table, count = csv("quorum/quorum", "policy", "selected"), 0
    for policy, selected, *cells in shown("how-to/quorum", "| policy | selected"):
        row, count = table.loc[(policy.replace("`", "").replace("T = ", "T="), int(selected))], count + 1
        assert_same(cells, row.time_s, row.time_to_target_s, row.test_accuracy, row.fairness_gap, row.late,
                    row.never_summed, row.privacy_semi_strong)  # fmt: skip
        assert row.reached == row.seeds == 5
    assert count == len(table)


def test_shared_links():
    table = csv("links/links").drop_duplicates(["way", "link"]).set_index(["way", "link"])
    rows = shown("how-to/network-sharing", "| way | own links")
    assert {cells[0] for cells in rows} == set(table.index.unique("way")) - {"plain"}
    for way, *cells in rows:
        seconds = [table.s_per_100_updates[way, link] for link in ("own", "10 Gbit/s", "1 Gbit/s", "0.3 Gbit/s")]
        assert_same(cells, *seconds, 100 * table.use_down[way, "1 Gbit/s"])


def test_oblivious_attack_and_costs():
    table = csv("oblivious/attack", "strategy")
    rows = shown("how-to/oblivious", "| strategy | Laplaces left")
    assert [cells[0] for cells in rows] == list(table.index)
    for strategy, *cells in rows:
        row = table.loc[strategy]
        assert_same(cells, row.laplaces_predicted, row.laplaces_measured, row.r2_measured, row.r2_predicted)
    table = csv("oblivious/costs", "users")
    for users, *cells in shown("how-to/oblivious", "| users | server"):
        row = table.loc[users.replace(",", "")]
        assert_same(cells, *((row[part], row[f"{part}_printed"]) for part in ("server", "setup", "encryption")))


def test_fedbuff_against_fedavg():
    table = csv("fedbuff/targets", "algorithm", "target").xs(0.95, level="target")
    rows = shown("how-to/fedbuff", "| | client updates")
    assert {cells[0].replace("K = ", "K=") for cells in rows} == set(table.index)
    for algorithm, *cells in rows:
        row = table.loc[algorithm.replace("K = ", "K=")]
        updates, seconds = (row.client_updates, row.client_updates_sd), (row.time_s, row.time_s_sd)
        assert_same(cells, updates, seconds, (row.learning_rate, row.server_learning_rate))
        assert row.seeds_that_reached == row.seeds == 3
    ratio = table.client_updates / table.client_updates["FedBuff, 100 at a time, K=10"]
    for (_, _, here), way in zip(shown("how-to/fedbuff", "| | paper | simfl"), ("FedAvg", "FedAsync"), strict=True):
        assert same(here, ratio[f"{way}, 100 at a time"])


def test_fedbuff_of_paper_003():
    table = csv("fedbuff/paper003").groupby(["staleness", "round"]).test_accuracy.agg(["mean", "min", "max", "size"])
    rows = shown("how-to/fedbuff", "| aggregations | 20")
    assert {cells[0] for cells in rows} == set(table.index.unique("staleness")) and (table["size"] == 3).all()
    for staleness, *cells in rows:
        found = [table.loc[(staleness, after - 1)] for after in (20, 40, 60, 80, 100)]
        assert_same(cells, *((row["mean"], row["min"], row["max"]) for row in found))


def test_guarantees_of_fedbuff():
    table = csv("fedbuff/privacy", "rule", "setting", "policy")
    columns = [["random", "weighted"], ["partition"], ["batch T=3"], ["half T=4"]]
    settings = [("FedAvg", "drop_unit"), ("FedAvg", "partial"), ("FedBuff", "drop_unit, common weights"),
                ("FedBuff", "drop_unit, own weights, constant staleness"), ("FedBuff", "drop_unit, own weights"),
                ("FedBuff", "partial"), ("FedBuff", "partial, constant staleness"),
                ("FedBuff", "partial, no failures")]  # fmt: skip
    assert set(settings) == set(table.index.droplevel("policy"))
    for (_, *cells), setting in zip(shown("how-to/fedbuff", "| | random, weighted"), settings, strict=True):
        for cell, policies in zip(cells, columns, strict=True):
            for policy in policies:
                row = table.loc[(*setting, policy)]
                assert row.privacy_weak_lower == row.privacy_weak_upper
                assert same(cell, row.privacy_strong, row.privacy_semi_strong, row.privacy_weak_lower)


@pytest.mark.parametrize(("name", "number"), [("summary", 0), ("shared/summary", 1)])
def test_reality(name, number):
    table = csv(f"reality/{name}", "rule", "repeat")
    rows = shown("how-to/calibrate", "| rule | repeat | real mean", number)
    assert len(rows) == len(table)
    for rule, repeat, *cells in rows:
        row = table.loc[(rule.lower(), int(repeat) - 1)]
        taus = row.kendall_tau, row.tau_of_two_simulations
        unaware = [100 * row[column] for column in ("unaware_mean_error", "unaware_p90_error") if column in row]
        assert_same(cells, row.real_mean_s, row.simulated_mean_s, 100 * row.mean_error, row.real_p90_s,
                    row.simulated_p90_s, 100 * row.p90_error, *taus, *unaware)  # fmt: skip


def test_epsilon_and_the_guarantee_of_each_policy():
    def named(policy):
        return policy.replace("half-batches, T = ", "half T=").replace("batches, T = ", "batch T=").removesuffix(", 24")

    table, rows = csv("dp/policies", "policy"), shown("how-to/differential-privacy", "| 96 clients, 100 rounds")
    assert {named(cells[0]) for cells in rows} == set(table.index)
    for policy, *cells in rows:
        row = table.loc[named(policy)]
        cells = [cell.replace("± .", "± 0.") for cell in cells]
        pairs = [(row[name], row[f"{name}_half_width"] if "±" in cell else None) for name, cell in
                 zip(("epsilon_max", "epsilon_median", "mean_cardinality"), cells[1:], strict=True)]  # fmt: skip
        assert_same(cells, row.privacy_weak_lower, *pairs)


def test_errors_of_figure_8():
    table = csv("attacks/figure8")
    rows = shown("how-to/attacks", "| window | policy | frozen (rate")
    for window, policy, *cells in rows:
        name = policy.removeprefix('"proposed" of the notebooks: ').replace("_partition, T = ", " T=")
        for cell, mode in zip(cells, ("frozen", "live"), strict=True):
            case = (table.window == int(window.split()[0])) & (table.policy == name) & (table["mode"] == mode)
            logs, expected = np.log(table[case].error), np.exp(np.log(table[case].expected).mean())
            half = stats.t.ppf(0.975, len(logs) - 1) * logs.std() / len(logs) ** 0.5
            values = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
            if (window, name) == ("40 rounds", "random"):
                values = sorted(np.exp(logs))
            told = [float(number.replace(",", "")) for number in NUMBER.findall(cell)]
            expected = [] if len(told) == 3 else [expected]
            assert len(logs) == 3 and told == pytest.approx([*values, *expected], rel=0.05, abs=0.0051), (cell, values)


def test_seconds_of_the_aggregation_server():
    table = csv("secagg/server", "protocol", "dropped")
    for protocol, *cells in shown("how-to/secure-aggregation", "| | 0 | 10 | 20 | 30 |"):
        name = protocol.replace("`", "")
        assert_same(cells, *(table.seconds[name, dropped] for dropped in (0, 10, 20, 30)))


def test_what_common_random_numbers_are_worth():
    table = csv("policies/common_random_numbers").set_index(["choice", "metric"])
    keys = [("half_partition:T=4", "mean_cardinality"), ("weighted", "test_accuracy"), ("weighted", "time_to_target_s"),
            ("weighted", "fairness_gap")]  # fmt: skip
    for (_, *cells), key in zip(shown("how-to/compare", "| what | difference | paired"), keys, strict=True):
        row = table.loc[key]
        paired, unpaired = ((row[f"{kind}upper"] - row[f"{kind}lower"]) / 2 for kind in ("", "unpaired_"))
        assert_same(cells, row.difference, paired, unpaired, row.width_ratio)
    assert (table.pairs == 20).all()
    text = (HERE / "docs" / "how-to" / "compare.md").read_text()
    ratio = table.width_ratio["half_partition:T=4", "fairness_gap"]
    assert f"it is {ratio:.2f} for the fairness gap of half against batch partition" in text


def test_five_policies_with_four_protocols():
    table = csv("secagg/protocols").pivot(index="choice", columns="metric", values="mean")
    protocols = "plain", "secagg", "lightsecagg", "pairwise_ratchet"
    rows = shown("how-to/secure-aggregation", "| policy | T | accuracy: plain")
    assert len(rows) * len(protocols) == len(table)
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
    coverage = json.loads((RESULTS / "forecast" / "coverage.json").read_text())
    rows = shown("how-to/forecast", "| quantity | 80 % intervals")
    for (_, *cells), shares in zip(rows, [coverage["all"], *coverage["each"].values()], strict=True):
        assert_same(cells, 100 * shares["80"], 100 * shares["95"])


def test_masked_averaging():
    files = ["published"] * 4 + ["epochs", "colours", "rotation"]
    rows = shown("how-to/learning", "| data, client rate, server rate")
    for (case, sizes, *cells), name in zip(rows, files, strict=True):
        table = csv(f"masked_averaging/{name}", "learning_rate", "server_learning_rate")
        row = table.loc[tuple(map(float, NUMBER.findall(case)[:2]))]
        lost = 0 if pandas.isna(row.diverged) else int(NUMBER.findall(str(row.diverged))[0])
        assert NUMBER.findall(sizes)[0] == str(int(row.rounds))
        if cells[0] == "diverged":
            assert lost or row.seeds == 0
            continue
        assert NUMBER.findall(sizes)[1] == str(int(row.seeds))
        differences = [interval(row, name) for name in ("masked_mean", "shrunk_mean", "masked_shrunk")]
        assert_same(cells, row["mean"], row.shrunk, row.masked, row.rescaled, row.mask_mean, *differences, None)


SCHEMES = "papers/paper001"


def scheme(cell):
    return cell.replace("*", "").replace("T = ", "T=")


def test_fairness_by_two_rules_of_paper_001():
    table = csv("paper001/fairness", "rules", "scheme")
    gaps = ("fairness_gap", "fairness_gap_unskipped")
    for name, skipped, *cells in shown(SCHEMES, "| | skipped rounds"):
        rows = [table.loc[rules, scheme(name)] for rules in ("paper", "authors")]
        half = rows[0].skipped_half_interval if "±" in skipped else None
        assert same(skipped, rows[0].skipped, half)
        if cells[2:] == ["the same", "the same"]:
            assert rows[0].equals(rows[1])
            cells, rows = cells[:2], rows[:1]
        assert_same(cells, *((row[gap], row[f"{gap}_half_interval"]) for row in rows for gap in gaps))


@pytest.mark.parametrize(("name", "data", "last"), [("3", "CIFAR-10", 1000), ("4", "MNIST", 200)])
def test_tuned_tables_of_paper_001(name, data, last):
    table, printed = (
        csv(f"paper001/table{name}_tuned", "setting", "scheme"),
        csv("paper001/published", "data", "setting", "scheme").printed[data],
    )
    rows = shown(SCHEMES, f"| Table {name}, ")
    assert len(rows) == 6
    for name, *cells in rows:
        of = [(table.loc[setting, scheme(name)], printed[setting, scheme(name)]) for setting in ("IID", "non-IID")]
        values = [value for row, paper in of for value in (paper, (row[f"after_{last}"], row.mean_of_last_5))]
        assert_same(cells, *values)


def test_skipped_rounds_of_paper_001():
    table = csv("paper001/skipped")
    rows = shown(SCHEMES, "| rounds skipped (`skipped.csv`)")
    assert len(rows) == 10
    for case, *cells in rows:
        data, middle, name = (scheme(part).replace("`", "") for part in case.split(", "))
        setting = middle.replace("not IID", "non-IID") if "IID" in middle else "IID"
        n, k = (int(middle.partition(f"{letter} = ")[2] or usual) for letter, usual in (("N", 120), ("K", 12)))
        name = f"batch {name}" if name.startswith("T=") else name
        found = table[(table.data == data) & (table.setting == setting) & (table.clients == n) & (table.k == k)]
        (row,) = found[found.scheme == name].itertuples()
        runs = [(row.lowest, row.highest), (row.expected, row.expected_lower, row.expected_upper),
                (row.simfl_lowest, row.simfl_highest)]  # fmt: skip
        cells = [cell.replace("*", "").partition(" of ")[0] for cell in cells]
        runs = [
            values if len(NUMBER.findall(cell)) > 1 else values[:1] for cell, values in zip(cells, runs, strict=True)
        ]
        assert_same(cells, *runs)


def test_bound_of_paper_001():
    table = csv("paper001/convergence", "split", "scheme", "rounds")
    rows = shown(SCHEMES, "| | IID: bound")
    splits = table.index.unique("split")
    for name, *cells in rows:
        for split, (bound, measured) in zip(splits, (cells[:2], cells[2:]), strict=True):
            both = [table.loc[split, scheme(name), after] for after in (100, 1000)]
            assert same(bound, *(row.bound for row in both))
            assert same(measured, *(value for row in both for value in (row.measured, row.half_interval)))


def test_accuracy_of_basecagg():
    table = csv("basecagg/differences", "setting")
    rows = shown("papers/paper003", "| | seeds | FedBuff")
    for (case, *cells), setting in zip(rows, ("polynomial", "constant", "LeNet, polynomial"), strict=True):
        row = table.loc[setting]
        assert setting.rpartition(", ")[2] in case and case.startswith("LeNet" if "LeNet" in setting else "perceptron")
        assert_same(cells, row.seeds, row.FedBuff, row.BASecAgg, (row.difference, row.lower, row.upper), row.largest)
    scales = csv("basecagg/scales").query("network == 'perceptron'").groupby("exponent")[["test_accuracy", "wrapped"]]
    accuracy, wrapped = shown("papers/paper003", "| c_l | 2")
    means = scales.mean()
    assert_same(accuracy[1:], *means.test_accuracy)
    assert_same(wrapped[1:], *means.wrapped)


USUAL, GENTLE = "5 passes, rate 1", "50 passes, rate 0.1"
NOISES = {"printed": (USUAL, 0.02, "published"), "published": (USUAL, 0.02, "published"),
          "α = 0.015": (USUAL, 0.015, "published"), "α = 0.03": (USUAL, 0.03, "published"),
          "α = 0.02, 50": (GENTLE, 0.02, "published"), "calibrated": (USUAL, 0.02, "calibrated")}  # fmt: skip
FRACTION = re.compile(r"(?<![\d.])(?=\.\d)")
"""Where a leading 0 is missing."""


def test_table_52_of_privacyfl():
    table = csv("privacyfl/table52")
    rows = shown("papers/privacyfl", "| | S1 | S2")
    for (name, *cells), (start, (training, alpha, noise)) in zip(rows, sorted_as(rows, NOISES), strict=True):
        for row, cell in zip(("S1", "S2", "S3", "S4"), cells, strict=True):
            case = (table.training == training) & (table.row == row) & (table.client != "none")
            if row != "S1":  # where each trains alone there is no noise
                case &= (table.alpha == alpha) & (table.noise == noise)
            found = table[case].sort_values("client")
            column = "printed" if start == "printed" else "accuracy"
            assert not cell or same(FRACTION.sub("0", cell), *found[column]), (name, row, cell)


def sorted_as(rows, cases):
    """The case of each row, by how its name begins."""
    return [next((start, case) for start, case in cases.items() if cells[0].startswith(start)) for cells in rows]


def test_paired_differences_of_privacyfl():
    table = csv("privacyfl/table52_paired").query("training == '5 passes, rate 1' and noise == 'published'")
    table = table.set_index(["alpha", "difference", "client"])
    rows = shown("papers/privacyfl", "| | α = 0.015")
    assert len(rows) == 5
    for name, *cells in rows:
        difference, _, clients = name.partition(", ")
        for alpha, cell in zip((0.015, 0.02, 0.03), cells, strict=True):
            of = [table.loc[(alpha, difference, client)] for client in NUMBER.findall(clients)]
            cell = FRACTION.sub("0", cell).replace("-", "−")
            assert same(cell, *(value for row in of for value in (row.accuracy, row.half_width))), (name, cell)


def test_what_policies_claim_and_what_is_seen():
    tables = [csv(f"selection/{data}", "policy") for data in ("mnist", "cifar10")]
    for policy, _, *cells in shown("papers/selection", "| policy | its paper"):
        for table, cell in zip(tables, cells, strict=True):
            names = [name for name in table.index if name.startswith(policy.strip("`"))]
            row, random = table.loc[names[0]], table.loc["random"]
            shorter, rounds = (
                random.time_to_target_s / row.time_to_target_s,
                (row.rounds_to_target, random.rounds_to_target),
            )
            assert same(cell, *(rounds if "rounds" in cell else ()), 1 / shorter if "rounds" in cell else shorter)


def test_figure_3_of_paper_001():
    (table, shown_) = csv("paper001/figure3", "scheme", "round"), shown(SCHEMES, "| | paper, Figure 3")
    text = {name: cells[-1] for name, *cells in shown_}
    weak = table.privacy_weak_upper
    random = [value for after in (109, 111, 116) for value in (weak["random", after - 1], after)]
    assert same(text["random: multi-round privacy (weak)"], *random, weak["random", 119], 120)
    assert same(text["weighted"], weak["weighted", 100], 101, weak["weighted", 119], 120)
    assert same(text["partition"], 12) and (weak["partition"] == 12).all()
    batches = [f"batch T={size}" for size in (6, 4, 3)]
    assert [weak[name].min() for name in batches] == [weak[name, 199] for name in batches] == [6, 4, 3]
    last = table.xs(199, level="round")
    theory = csv("paper001/tradeoff", "scheme").expected_cardinality
    schemes = ["partition", *batches]
    here, there = text["cardinality: partition, T=6, T=4, T=3"].split("; theory ")
    assert same(here, *last.mean_cardinality[schemes]) and same(there, *theory[schemes])
    gaps, batch = last.fairness_gap, last.fairness_gap[batches]
    assert same(text["fairness gap after 200 rounds"], gaps["random"], batch.min(), batch.max(), gaps["partition"],
                gaps["weighted"])  # fmt: skip
