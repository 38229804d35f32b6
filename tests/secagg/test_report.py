"""What secure aggregation costs beside plain: comparisons, the report of runs and comparisons, the timeline."""

import csv
import io
import json

import pytest
from rich.console import Console

import simfl
from simfl.experiments.compare.differences import overhead_rows
from simfl.experiments.compare.show import show
from simfl.report import draw, read_study
from simfl.report.html_page import page
from simfl.report.page_tables import beside_table
from simfl.report.summary_text import describe
from simfl.results.perfetto import protocol_phases
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.plugins.test_public_interface import tables
from tests.secagg.test_world import PROTOCOLS, REAL, real
from tests.support.chromium import chromium, executable

pytestmark = pytest.mark.usefixtures("sweeps_here")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two policies with and without a protocol, two seeds."""
    folder = tmp_path_factory.mktemp("beside")
    (folder / "real.yaml").write_text(REAL)
    protocols = ["plain", {"name": "lightsecagg", "private": 0.2, "survivors": 0.4}]
    policies = [{"name": "random", "k": 8}, {"name": "batch_partition", "k": 8, "T": 2}]
    choices = {"secagg": protocols, "selection": policies, "training.rounds": 3}
    return simfl.compare(folder / "real.yaml", choices, replications=2, out=folder / "out", jobs=1)


@pytest.fixture(scope="module")
def buffered(tmp_path_factory):
    """A run of BASecAgg with failures in every phase, and its timeline."""
    folder = tmp_path_factory.mktemp("buffered")
    failure = "devices.failure={name: bernoulli, probability: 0.1, phases: {share: 0.1, deliver: 0.1, unmask: 0.1}}"
    done = run(real("basecagg", failure), folder, timeline=folder / "timeline.json")
    return done.path, folder / "timeline.json"


@pytest.fixture(scope="module")
def pages(buffered, compared):
    """The reports of both."""
    return [page(read_study([path])) for path in (buffered[0], compared.path)]


def final(compared, digest, metric):
    summary = json.loads((compared.path.parent / digest / "summary.json").read_text())
    return summary["bytes_down"] + summary["bytes_up"] if metric == "bytes" else summary[metric]


def test_every_protocol_stands_beside_its_own_plain_choice(compared):
    document = compared.document
    of = {choice["choice"]: choice for choice in document["choices"]}
    rows = document["beside_plain"]
    assert len({row["choice"] for row in rows}) == 2
    for row in rows:
        mine, plain = of[row["choice"]], of[row["plain"]]
        assert plain["values"] == mine["values"] | {"secagg": "plain"} and mine["values"]["secagg"] != "plain"
        pairs = [(final(compared, a["digest"], row["metric"]), final(compared, b["digest"], row["metric"]))
                 for a, b in zip(mine["runs"], plain["runs"], strict=True)]  # fmt: skip
        assert row["pairs"] == len(pairs) == 2
        assert row["difference"] == pytest.approx(sum(a - b for a, b in pairs) / 2, abs=1e-12)
        assert row["lower"] <= row["difference"] <= row["upper"]
        if all(b for _, b in pairs):
            assert row["ratio"] == pytest.approx(sum(a / b for a, b in pairs) / 2)
    bytes_of = {row["choice"]: row for row in rows if row["metric"] == "bytes"}
    assert all(row["difference"] > 0 and row["ratio"] > 1 for row in bytes_of.values())
    with open(compared.path / "beside_plain.csv", newline="") as file:
        assert [row["choice"] for row in csv.DictReader(file)] == [row["choice"] for row in rows]


def test_pairs_are_found_by_what_else_varies():
    masked, plain = {0: {"secagg_bytes": 1.0, "bytes": 6.0}}, {0: {"bytes": 2.0}}
    found = overhead_rows({
        "a": ({"secagg.name": "plain", "selection": "x"}, plain),
        "b": ({"secagg.name": "secagg", "selection": "x"}, masked),
        "c": ({"secagg.name": "secagg", "selection": "y"}, masked),
        "d": ({"secagg.clip": "3", "selection": "x"}, masked),
    })  # fmt: skip
    assert [(row["choice"], row["plain"], row["difference"], row["ratio"]) for row in found] == [
        ("b", "a", 4.0, 3.0), ("d", "a", 4.0, 3.0)]  # fmt: skip
    assert found[0]["lower"] is None
    twice = {"a": ({}, plain), "b": ({}, plain), "c": ({}, masked)}
    assert overhead_rows(twice) == [], "nobody knows beside which"
    zero = overhead_rows({"a": ({}, {0: {"bytes": 0.0}}), "c": ({}, masked)})
    assert zero[0]["ratio"] is None and zero[0]["difference"] == 6


def test_comparisons_print_it(compared):
    file = io.StringIO()
    show(compared.document, Console(file=file, width=400, force_terminal=True, color_system=None, markup=False))
    text = file.getvalue()
    assert "what secure aggregation costs beside the same without it, same seeds" in text
    part = text[text.index("what secure aggregation costs") :].splitlines()
    for row in compared.document["beside_plain"]:
        (line,) = [line for line in part if line.startswith(f"{row['choice']} ")]
        assert f" {row['plain']} " in line and (row["metric"] != "bytes" or f"(x {row['ratio']:.3g})" in line)


def test_the_report_of_a_comparison_has_the_table(compared, pages):
    study = read_study([compared.path])
    table = beside_table(study)
    rows = {(row["choice"], row["metric"]): row for row in compared.document["beside_plain"]}
    assert len(table.rows) == 2
    for row, choice in zip(table.rows, dict.fromkeys(choice for choice, _ in rows), strict=True):
        cells = dict(zip((head.name for head in table.columns), row.cells, strict=True))
        for name in ("bytes", "time_s", "test_accuracy"):
            found = rows[choice, name]
            assert cells[name].value == pytest.approx(found["difference"])
            assert name == "test_accuracy" or cells[f"{name}_ratio"].value == pytest.approx(found["ratio"])
    assert "the server sees every update" in pages[1] and "the server sees every update" not in pages[0]
    assert 'id="beside-plain"' in pages[1] and 'id="beside-plain"' not in pages[0]


def test_the_phases_are_drawn_as_they_are(buffered, compared):
    import pandas

    path, _ = buffered
    _, table = draw("phases", path)
    phases = pandas.read_csv(path / "phases.csv")
    for row in table.itertuples():
        mine = phases[phases.phase == row.phase]
        assert (row.asked, row.failed) == (mine.asked.sum(), mine.failed.sum()) and row.failed > 0
        assert row.seconds == pytest.approx((mine.ended_s - mine.started_s).mean())
        assert row.bytes == pytest.approx((mine.bytes_down + mine.bytes_up).sum() / 6)
    assert set(table.phase) == {"share", "deliver", "unmask"}
    _, many = draw("phases", compared.path)
    assert len(set(many.group)) == 2


def test_the_report_of_a_run_says_that_the_guarantee_holds_and_what_it_cost(buffered, pages, tmp_path):
    """Of sums that failed as answers were missing, those that came may tell the server a part."""
    path, _ = buffered
    study = read_study([path])
    text, summary = " ".join(describe(study)), json.loads((path / "summary.json").read_text())
    assert "more than sums (basecagg), so that no multi-round guarantee holds: what a session that failed" in text
    assert "more than sums (basecagg)" in pages[0]
    sure = " ".join(describe(read_study([run(real("basecagg", "devices.failure=none"), tmp_path).path])))
    assert "sums only (basecagg), and the multi-round guarantee T = 2 holds" in sure
    total = summary["bytes_down"] + summary["bytes_up"]
    assert f", {total / summary['clear_bytes']:.3g} times the " in text and "phases of several units overlap" in text


def test_the_bytes_in_clear_are_those_of_the_plain_run(tmp_path):
    """Nobody fails, so that plain asks the same clients; of FedBuff's last jobs some have only begun."""
    for name in ("secagg", "lightsecagg"):
        hidden, plain = (run(real(kind, "devices.failure=none"), tmp_path).summary for kind in (name, "plain"))
        assert hidden["clear_bytes"] == plain["bytes_down"] + plain["bytes_up"]
    drawn = (*PROTOCOLS["basecagg"], "training.arrivals={name: uniform_staleness, max: 3}", "devices.failure=none")

    hidden, plain = (
        run(Scenario.parse(REAL, "real", (*drawn, *more)), tmp_path).summary for more in ((), ("secagg=plain",))
    )
    assert hidden["clear_bytes"] == plain["bytes_down"] + plain["bytes_up"]


SMALL = """
clients: 12
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 4, weighting: equal}
learning: {data: digits, model: logistic}
secagg: secagg
"""
ASKING = "selection={name: power_of_choice, k: 4, d: 8, scalars: clear}"
ADAPTIVE = "privacy={accountants: [], stages: [{name: adaptive_gaussian, bit_std: 9}]}"
BUFFER = ("training={name: fedbuff, rounds: 4, buffer: 4, weighting: equal, ARRIVALS}", "secagg=basecagg")
DRAWN = tuple(each.replace("ARRIVALS", "arrivals: {name: uniform_staleness, max: 2}") for each in BUFFER)
SERVERLESS = ("selection=all", "training={name: serverless, rounds: 3, weighting: equal}", "secagg=pairwise_ratchet")


@pytest.mark.parametrize(
    "changes",
    [
        (ASKING,),
        (ASKING, ADAPTIVE),
        ("selection={name: oort, k: 4, scalars: clear}",),
        ("selection={name: oort, k: 4, scalars: clear}", ADAPTIVE, "compression={name: random_k, share: 0.5}"),
        ("training.announce=true",),
        (*DRAWN, ADAPTIVE),
        (*SERVERLESS, "training.client={name: privacyfl, tolerance: 0.02}", "training.rounds=6"),
    ],
    ids=["asked", "asked and counted", "reported", "all of these", "announced", "drawn", "who leaves"],
)
def test_all_that_a_plain_run_sends_is_in_the_bytes_in_clear(tmp_path, changes):
    """What candidates are asked, what stages and reports add to an update, and what is said after a round."""
    hidden, plain = (
        run(Scenario.parse(SMALL, "small", (*changes, *more)), tmp_path).summary for more in ((), ("secagg=plain",))
    )
    assert hidden["clear_bytes"] == plain["bytes_down"] + plain["bytes_up"] > 0
    assert hidden["clear_bytes"] < hidden["bytes_down"] + hidden["bytes_up"]


def test_plain_meets_the_failures_of_phases_that_it_does_not_have(tmp_path):
    """So that one scenario can be played with a protocol and without."""
    failure = "devices.failure={name: bernoulli, probability: 0.1%s}"
    one, other = (run(real("plain", failure.replace("%s", more)), tmp_path) for more in ("", ", phases: {share: 0.9}"))
    assert one.digest != other.digest and tables(one.path) == tables(other.path)


def test_where_no_guarantee_is_promised_none_is_claimed(tmp_path):
    text = " ".join(describe(read_study([run(real("secagg", "selection=random:k=8"), tmp_path).path])))
    assert "the policy promises no multi-round guarantee" in text


# -- timeline ---------------------------------------------------------------------------------------------


def test_the_timeline_has_every_phase_and_no_two_at_once(buffered):
    path, timeline = buffered
    events = json.loads(timeline.read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    tracks: dict[int, list] = {}
    for event in events:
        if event["ph"] == "X" and names[event["tid"]].startswith("secure aggregation"):
            tracks.setdefault(event["tid"], []).append(event)
    assert sorted(names[track] for track in tracks) == [f"secure aggregation {i + 1}" for i in range(len(tracks))]
    for spans in tracks.values():
        spans.sort(key=lambda span: span["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in zip(spans, spans[1:], strict=False))
    with open(path / "phases.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    drawn = sorted((s["name"], round(s["ts"]), s["args"]["failed"]) for spans in tracks.values() for s in spans)
    assert drawn == sorted((r["phase"], round(float(r["started_s"]) * 1e6), int(r["failed"])) for r in rows)
    assert min(tracks) > max(tid for tid, name in names.items() if name.startswith("client"))


def test_phases_take_the_first_free_track():
    def row(start, end, failure=""):
        return {"phase": "share", "started_s": str(start), "ended_s": str(end), "failure": failure,
                **dict.fromkeys(("round", "asked", "answered", "failed", "bytes_down", "bytes_up"), "1")}  # fmt: skip

    spans = list(protocol_phases([row(2, 3, "why"), row(0, 2), row(1, 4), row(3.5, 5)], 7))
    assert [(span["tid"], span["ts"]) for span in spans] == [(7, 0), (8, 1e6), (7, 2e6), (7, 3.5e6)]
    assert spans[2]["args"]["failure"] == "why" and "failure" not in spans[0]["args"]


# -- in a browser -----------------------------------------------------------------------------------------


@pytest.mark.skipif(executable() is None, reason="no Chromium")
def test_both_reports_open_without_complaint(pages, tmp_path):
    with chromium() as opened:
        for number, text in enumerate(pages):
            file = tmp_path / f"{number}.html"
            file.write_text(text)
            for width in (1280, 390):
                opened.open(f"file://{file}", width=width)
                assert not opened.errors and not [url for url in opened.requests if url.startswith("http")]
                assert opened.js("document.documentElement.scrollWidth") <= width
                assert opened.js("document.querySelectorAll('#figure-phases svg').length") == 1


def test_what_protection_costs_has_no_interval_beside_a_collapsed_run():
    """As all other tables: below ten seeds a measure in which a run has collapsed has none, differences and ratios."""
    plain = {seed: {"test_accuracy": 0.9 + 0.001 * seed, "time_s": 10.0 + seed} for seed in range(5)}
    masked = {seed: {**numbers, "secagg_bytes": 1.0, "time_s": 12.0 + 1.1 * seed} for seed, numbers in plain.items()}
    masked[3]["test_accuracy"] = 0.1
    rows = {row["metric"]: row for row in overhead_rows({"a": ({}, plain), "b": ({}, masked)})}
    fallen, fine = rows["test_accuracy"], rows["time_s"]
    assert [fallen[name] for name in ("lower", "upper", "ratio_lower", "ratio_upper")] == [None] * 4
    assert (
        fallen["difference"] == pytest.approx((0.1 - 0.903) / 5) and fine["lower"] < fine["difference"] < fine["upper"]
    )
