"""Bar 12: what is published can be checked: by playing it again, by recorded digests, by a clean installation."""

import csv
import platform
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

import numpy
import torch
from scipy.stats import ks_2samp

from simfl.core.errors import SimflError
from simfl.core.version import RESULTS
from simfl.runs.run import run, verify
from simfl.scenario import Scenario
from tests.reliability.check import Case, Check, NotMeasured, Outcome, Plan
from tests.reliability.damage_subjects import BUFFERED
from tests.reliability.tested import tested
from tests.reliability.traces import TEXT
from tests.runs.test_run import PROTOCOL
from tests.support.random_scenarios import random_scenario
from tests.support.search import PLUGINS, impatient

HERE = Path(__file__).resolve().parent.parent.parent
GOLDEN = Path(__file__).with_name("golden.csv")
SURE = 0.001
SEEDS = 30
MEASURES = ("time_s", "mean_cardinality", "fairness_gap", "test_accuracy")
SCENARIOS = {
    "learning": TEXT,
    "asynchronous": BUFFERED,
    "synchronous": PROTOCOL.replace("rounds: 400", "rounds: 40"),
}


def verified(plan: Plan) -> Case:
    """A random scenario, played and verified: every file again."""

    def case(number: int) -> Outcome:
        rng, again = numpy.random.default_rng([plan.seed, number]), 0
        with impatient():
            while True:
                try:
                    folder = run(random_scenario(rng, PLUGINS)[0], plan.scratch / "runs").path
                    break
                except SimflError:
                    again += 1
            found = verify(folder)
        shutil.rmtree(plan.scratch / "runs")
        wrong = [f"{name} differs" for name, same in found.items() if not same]
        return Outcome(tuple(wrong), {"files": len(found)} | ({"stalled and drawn again": again} if again else {}))

    return case


# -- golden digests --------------------------------------------------------------------------------------------


def fingerprint() -> str:
    """What the last bits of arithmetic may depend on."""
    cpu = platform.machine()
    if (about := Path("/proc/cpuinfo")).exists():
        cpu = next(
            (line.partition(":")[2].strip() for line in about.read_text().splitlines() if "model name" in line), cpu
        )
    return f"{cpu}, numpy {numpy.__version__}, torch {torch.__version__}"


def golden_rows(name: str, scratch: Path) -> list[dict[str, str]]:
    """A row a seed: the digest of its rounds.csv and its final values."""
    rows = []
    for seed in range(SEEDS):
        done = run(Scenario.parse(SCENARIOS[name], name, [f"seed={seed}"]), scratch)
        final = {measure: str("" if (value := done.summary.get(measure)) is None else value) for measure in MEASURES}
        digest = sha256((done.path / "rounds.csv").read_bytes()).hexdigest()[:16]
        rows.append({"scenario": name, "seed": str(seed), "rounds": digest, **final,
                     "results": str(RESULTS), "machine": fingerprint()})  # fmt: skip
    return rows


def record() -> None:
    """Writes ``golden.csv`` anew."""
    with tempfile.TemporaryDirectory() as scratch, open(GOLDEN, "w", newline="") as file:
        rows = [row for name in SCENARIOS for row in golden_rows(name, Path(scratch))]
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def golden(plan: Plan) -> Case:
    """Thirty seeds of a scenario beside what was recorded: digests on the same machine, distributions elsewhere."""
    with open(GOLDEN, newline="") as file:
        recorded = list(csv.DictReader(file))

    def case(number: int) -> Outcome:
        name = list(SCENARIOS)[number % len(SCENARIOS)]
        before, now = [row for row in recorded if row["scenario"] == name], golden_rows(name, plan.scratch / "runs")
        if before[0]["results"] != str(RESULTS):
            why = f"results version {RESULTS}, recorded {before[0]['results']}: record it again (--record)"
            return Outcome((f"{name}: {why}",), {"seeds": SEEDS})
        same = sum(a["rounds"] == b["rounds"] for a, b in zip(before, now, strict=True))
        wrong = []
        if before[0]["machine"] == now[0]["machine"]:
            wrong = [f"{name}, seed {a['seed']}: other digest, so numerics changed without a new RESULTS"
                     for a, b in zip(before, now, strict=True) if a["rounds"] != b["rounds"]]  # fmt: skip
        for measure in MEASURES:
            values = [[float(row[measure]) for row in rows if row[measure]] for rows in (before, now)]
            if all(values) and (p := ks_2samp(*values, method="asymp").pvalue) < SURE:
                wrong.append(f"{name}: {measure} has another distribution, p = {p:.2g}")
        return Outcome(tuple(wrong), {"seeds": SEEDS, "with the recorded digest": same})

    return case


# -- installation ---------------------------------------------------------------------------------------------


def installed(plan: Plan) -> Case:
    """``.ci/wheel``, from the results of the README's main job."""

    def case(number: int) -> Outcome:
        if not (HERE / ".venv/bin/python").exists():
            raise NotMeasured("no .venv here: the README's first command makes it; `.ci/run` does this every time")
        main = [HERE / ".venv/bin/python", "-m", "simfl", "run", "-q", "quickstart"]
        for command in (main, [HERE / ".ci/wheel"]):
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
            if done.returncode:
                return Outcome((f"{command[-1]}: exit {done.returncode}: {done.stderr[-300:]}",))
        return Outcome()

    return case


CHECKS = (
    Check(12, "verified", "random scenarios, run and verified: every file again", "runs", (2, 40, 1_000), verified),
    Check(12, "golden", "30 seeds of each scenario (nightly three) beside recorded digests (same machine) and "
          "distributions (anywhere, p > 0.001)", "seeds", (0, 30, 90), golden),
    Check(12, "installed", "the wheel, installed without an index, away from the checkout, runs quickstart to the "
          "same tables",
          "installations", (0, 0, 1), installed),
    tested(12, "published-tests", "figures and pages again byte for byte, each figure its CSV, nothing fetched, all "
           "escaped",
           "report/test_figures.py::test_the_same_results_give_the_same_bytes",
           "report/test_page.py::test_the_page_refers_to_nothing_outside",
           "report/test_page.py::test_every_download_is_the_table_behind_its_figure",
           "report/test_page.py::test_what_users_wrote_is_escaped",
           "results/test_integrity.py::test_verify_is_not_fooled_by_a_consistent_forgery",
           nightly=("report/test_figures.py", "report/test_page.py", "report/test_advice.py",
                    "results/test_timeline.py", "results/test_integrity.py", "cli/test_cli.py")),
)  # fmt: skip
