"""Every page of docs/papers has a stored run, which comes out again; PrivacyFL's page says what its tables say."""

from pathlib import Path

import pandas
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.results.folder import ResultsFolder
from simfl.scenario import Scenario
from tests.whole.test_scripts import imported

HERE = Path(__file__).resolve().parents[2]
STORED = HERE / "results" / "stored"
FOLDERS = sorted(path for path in STORED.iterdir() if path.is_dir() and path.name != "__pycache__")
PRIVACYFL = HERE / "results" / "privacyfl"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_stored_run_comes_out_again(folder):
    done = CliRunner().invoke(simfl, ["run", "--verify", str(folder)])
    assert done.exit_code == 0, done.output
    assert "participation.csv: identical" in done.output and "differs" not in done.output


def test_every_page_has_a_stored_run_of_the_scenario_that_its_script_names(monkeypatch):
    script = imported(STORED / "stored.py", monkeypatch)
    pages = {page.stem for page in (HERE / "docs" / "papers").glob("*.md")} - {"not-so"}
    assert {stored.page for stored in script.RUNS.values()} == pages - {"index"}
    assert set(script.RUNS) == {folder.name for folder in FOLDERS}
    for folder in FOLDERS:
        stored = ResultsFolder.open(folder)
        assert stored.summary["digest"] == script.scenario(folder.name).digest
        assert Scenario.load(folder / "scenario.yaml").digest == stored.summary["digest"]


def points(value, half=None):
    """As the page writes shares."""
    return f"{value:.3f}".replace("0.", ".") + (f" ± {half:.3f}".replace("0.", ".") if half is not None else "")


def test_the_page_on_privacyfl_has_its_figures():
    text = (PRIVACYFL / "README.md").read_text()
    table = pandas.read_csv(PRIVACYFL / "figure52.csv").fillna({"noise": "", "epsilon": 0})
    kinds = [
        ("clients alone", "", 0),
        *(("federated", "published", e) for e in (0.1, 1, 8)),
        ("federated", "calibrated", 1),
    ]
    cells = table.set_index(["model", "noise", "epsilon", "round"])
    for t in (1, 4, 8):
        found = [cells.loc[(*kind, t)] for kind in kinds]
        assert f"| {t} | {' | '.join(points(cell.accuracy, cell.half_width) for cell in found)} |" in text
    cells = pandas.read_csv(PRIVACYFL / "figure53.csv").set_index(["noise", "epsilon", "clients", "round"])
    for n in (3, 10, 30):
        kinds = [("published", 0.1), ("published", 1.0), ("calibrated", 1.0)]
        found = [cells.loc[(*kind, n, t)] for kind in kinds for t in (3, 10)]
        assert f"| {n} | {' | '.join(points(cell.accuracy, cell.half_width) for cell in found)} |" in text
    last = pandas.read_csv(PRIVACYFL / "figure54.csv").set_index(["model", "round"]).loc["serverless"]
    for t, words in ((1, "after the first round"), (7, "after the seventh")):
        assert f"{points(last.accuracy[t], last.half_width[t])} {words}" in " ".join(text.split())


def test_the_page_on_privacyfl_has_table_52():
    text = (PRIVACYFL / "README.md").read_text()
    table = pandas.read_csv(PRIVACYFL / "table52.csv").fillna({"alpha": 0, "noise": ""})
    named = table.set_index(["training", "alpha", "noise", "row", "client"])
    short = "5 passes, rate 1"
    rows = {
        "published noise, α = 0.02": (0.02, "published"),
        "α = 0.015": (0.015, "published"),
        "α = 0.03, as in the scenarios": (0.03, "published"),
        "calibrated noise, α = 0.02": (0.02, "calibrated"),
    }
    for name, kind in rows.items():
        cells = [" ".join(points(named.loc[(short, *kind, row, f"{c}"), "accuracy"]) for c in range(1, n + 1))
                 for row, n in (("S2", 2), ("S3", 3), ("S4", 3))]  # fmt: skip
        assert f" | {' | '.join(cells)} |\n" in text[text.index(f"| {name} |") :]
    paired = pandas.read_csv(PRIVACYFL / "table52_paired.csv").query("training == @short and noise == 'published'")
    paired = paired.set_index(["difference", "client", "alpha"])
    for difference in ("S2 - S3", "S3 - S1"):
        cells = [", ".join(points(paired.accuracy[difference, c, alpha], paired.half_width[difference, c, alpha])
                           for c in ("1", "2")) for alpha in (0.015, 0.02, 0.03)]  # fmt: skip
        assert f"| {difference}, clients 1, 2 | {' | '.join(cells)} |" in text
