"""Numbers of README and how-tos that follow from stored results by more than a look-up, for docs/claims.yaml."""

import json
import re
from pathlib import Path

import pandas
import pytest
from scipy import stats

from tests.whole.test_page_tables import csv, same, shown
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
HOW_TO = HERE / "docs" / "how-to"


def words(page):
    return " ".join((HOW_TO / f"{page}.md").read_text().split())


def test_the_table_of_the_factorial_study_is_that_of_its_picture():
    table = pandas.read_csv(HERE / "docs/pictures/factorial.csv").set_index(["color", "panel", "x"])
    for name, *cells in shown("how-to/factorial", "| accuracy in per cent, three seeds", 2):
        rows = [table.loc[(*name.split(", "), dropout)] for dropout in (0.1, 0.3, 0.5)]
        assert all(same(cell, 100 * row.y, 100 * row.y_half) for cell, row in zip(cells, rows, strict=True))
        assert all(row.filter(like="y_seed").mean() == pytest.approx(row.y) for row in rows)


def test_the_page_on_advice_has_the_numbers_of_its_worlds(monkeypatch):
    script = imported(HERE / "benchmarks" / "advise.py", monkeypatch)
    with (HERE / "results/advise/worlds.jsonl").open() as file:
        said = script.table([json.loads(line) for line in file])
    text = words("../../results/advise/README")
    kept, worlds = re.search(r"keeps the promise in (\d+) of (\d+)", said).groups()
    first, best = re.search(r"first advice ([\d.]+), best of the grid ([\d.]+)", said).groups()
    assert f"in {kept} of {worlds}" in text and f"{first} of 20 rounds" in text and best in text


def test_the_page_on_advice_says_how_many_unguarded_policies_kept_what_was_shown():
    with (HERE / "results/advise/worlds.jsonl").open() as file:
        worlds = [row for row in map(json.loads, file) if row.get("grid")]
    firsts = [row["grid"][row["first"]]["policy"] for row in worlds if row["first"] is not None]
    held = [each["true_safe"] >= 0.95 - 1e-9 for row in worlds for each in row["grid"]
            if each["holds"] and not each["policy"].startswith("guarded")]  # fmt: skip
    kept, all_of_them = sum(held), len(held)
    low = 100 * stats.beta.ppf(0.025, kept, all_of_them - kept + 1)
    high = 100 * stats.beta.ppf(0.975, kept + 1, all_of_them - kept)
    passed = 100 * stats.binom.cdf(1, 20, 0.1)
    text = words("../../results/advise/README")
    assert f"in {sum(each.startswith('guarded') for each in firsts)} of them it was a guard" in text
    assert f"Of {all_of_them} other policies that forecasts showed to keep it, {kept} did (exact 95 % interval " in text
    assert f"{low:.1f} to {high:.1f} %), and a policy that breaks it in 10 % of futures passes" in text
    assert f"in {passed:.0f} % of cases" in text


def test_the_page_on_advice_has_the_means_of_its_units():
    table = pandas.read_csv(HERE / "results/advise/units.csv")
    groups = table.assign(kind=table.policy.str.extract(r"(batch|half|guarded)")[0]).groupby(["world", "kind", "units"])
    assert (groups.seed.nunique() == 5).all()
    means = 100 * groups.lost_share.mean()
    names = {"equal rates": "constant", "a rate for each client": "per_client", "sticky": "sticky",
             "time of day": "time_of_day", "groups that fail together": "groups"}  # fmt: skip
    for world, *cells in shown("../results/advise/README", "| world | batches, as in the log", 5):
        values = [means[names[world], kind, units] for kind in ("batch", "half", "guarded")
                  for units in ("as_logged", "availability")]  # fmt: skip
        assert all(same(cell, value) for cell, value in zip(cells, values, strict=True)), (world, values)


SHAPES = {
    "normal": "normal", "skewed (exponential)": "skewed", "very skewed (log-normal)": "very skewed",
    "discrete (five steps)": "discrete", "heavy (t, 3 degrees of freedom)": "heavy",
    "one run in ten collapses": "one in ten collapses",
}  # fmt: skip


def test_the_table_of_stars_is_that_of_the_stored_counts():
    """Where collapses are possible, of the studies in which one has been seen."""
    table = csv("referee/stars")
    assert (table.groupby(["shape", "seeds"]).studies.sum() == 1000).all()
    for name, *cells in shown("how-to/significance", "| shape, baseline and others alike", len(SHAPES)):
        rows = table[table["shape"] == SHAPES[name]]
        rows = (rows[rows.collapse_seen] if "collapses" in name else rows).groupby("seeds").sum(numeric_only=True)
        means = (100 * rows.means_held / rows.means.where(rows.means > 0)).dropna()
        held = (100 * rows.differences_held / rows.differences.where(rows.differences > 0)).dropna()
        stars = 100 * rows.with_stars / rows.studies
        assert (
            same(cells[0].replace("– / ", ""), *means) and same(cells[1], held.min()) and same(cells[2], stars.max())
        ), name
