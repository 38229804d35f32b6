"""Bar 3: damage is seen, in what an interrupted run goes on from, in finished runs and in the cache."""

import json
import os
import shutil
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
from damages import copied, damaged
from kills import files

from bars.check import Case, Check, Outcome, Plan
from simfl import opening
from simfl.audit.reading import read
from simfl.cache import cached
from simfl.compare.comparison import compare
from simfl.errors import IntegrityError, SimflError
from simfl.listing import listed
from simfl.opening import Result
from simfl.report import read_study
from simfl.report.live import Watched
from simfl.report.page import page
from simfl.report.study import Run
from simfl.report.terminal import shown
from simfl.run import run, verify
from simfl.scenario import Scenario
from simfl.serving.desk import Desk
from simfl.sweep.folders import summary
from simfl.sweep.grid import axes
from simfl.sweep.plan import planned
from simfl.sweep.playing import How
from simfl.tidy import all_rounds
from simfl.trace import SEALS
from simfl.updates import Updates, encoded

__all__ = ["CHECKS"]

SYNCHRONOUS = """
name: damaged
clients: 12
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.05}}
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}}
selection: {name: batch_partition, k: 4, T: 2}
training: {name: fedavg, rounds: 12, batch_size: 20, learning_rate: 0.2}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: logistic}
privacy: {stages: [{name: central_gaussian, max_weight: 1000}]}
attacks: [least_squares, {name: membership, candidates: 50}, {name: inversion, method: analytic}]
trace: events
"""
ASYNCHRONOUS = """
name: damaged
clients: 12
network: {name: star, latency_s: 0.1}
devices: {computation: {name: per_sample, seconds: 0.01}}
selection: {name: random, k: 1}
training: {name: fedbuff, concurrency: 4, buffer: 2, rounds: 12}
learning: {name: none, parameters: 100, samples: 10}
trace: events
"""
TEXTS = (SYNCHRONOUS, ASYNCHRONOUS)
DRAWN_FOR = 50
"""Of so many damages to finished runs one is also asked of the report's page and of ``verify``, which take longer."""


# -- what an interrupted run goes on from --------------------------------------------------------------


class _Stop(Exception):
    pass


def resumed(plan: Plan) -> Case:
    """One bit or one end of a checkpoint, its predecessor or a growing table; it goes on, or says why not."""
    scenario = Scenario.parse(ASYNCHRONOUS, "s", ["training.rounds=60"])
    whole = files(run(scenario, plan.scratch / "whole").path)

    def stop(done: int, rounds: int, time_s: float) -> None:
        if done == 37:
            raise _Stop

    try:
        run(scenario, plan.scratch / "stopped", progress=stop)
    except _Stop:
        pass

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        copied(plan.scratch / "stopped", plan.scratch / "again")
        chosen = [path for path in sorted((plan.scratch / "again").rglob("*")) if path.suffix in (".ckpt", ".part")]
        path = chosen[rng.integers(len(chosen))]
        data = bytearray(path.read_bytes())
        place = int(rng.integers(len(data)))
        if number % 2:
            del data[place:]
        else:
            data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        what, said = f"{path.name}, {'cut at' if number % 2 else 'a bit of byte'} {place}", StringIO()
        kind = "cuts" if number % 2 else "bit flips"
        try:
            with redirect_stderr(said):
                again = files(run(scenario, plan.scratch / "again").path)
        except IntegrityError as error:
            named = error.exit_code == 4 and path.name in f"{said.getvalue()}{error}"
            return Outcome(() if named else (f"{what}: refused without its name: {error}",), {kind: 1, "refused": 1})
        wrong = () if again == whole else (f"{what}: other bytes",)
        return Outcome(
            wrong, {kind: 1, "gone on from the checkpoint before" if said.getvalue() else "not concerned": 1}
        )

    return case


# -- finished runs ---------------------------------------------------------------------------------------


def readers(text: str, folder: Path, pages: bool) -> dict:
    """Name -> what reads the folder: plain data that changes where a number changes."""

    def opened():
        found = Result.open(folder)
        return found.summary, found.rounds.to_csv(), found.participation.toarray().tolist(), found.scenario.digest

    def told():
        found = Run.open(folder)
        tables = [t.to_csv() for t in (found.rounds, found.jobs, found.clients_table, found.latency) if t is not None]
        events = found.events.read_bytes() if found.events else b""
        return tables, found.text, events, found.participation.toarray().tolist()

    def watched():
        (one,) = (state := Watched(folder).look())["runs"]
        if one["state"] != "done" or one["error"]:
            raise SimflError(str(one["error"]))
        return one["accuracy"], one["time_s"], json.dumps(state["clients"])

    def swept():
        if (found := summary(folder)) is None:
            raise SimflError("no run")
        return found

    asked = {
        "run": lambda: run(Scenario.parse(text, "s"), folder.parent.parent).summary,
        "sweep": swept,
        "open": opened,
        "report": told,
        "audit": lambda: read(folder).matrix.toarray().tolist(),
        "watch": watched,
    }
    if pages:
        asked["page"] = lambda: page(read_study([folder]))
        asked["verify"] = lambda: verify(folder)
    return asked


def finished(plan: Plan) -> Case:
    """Every reader of a damaged folder: it refuses, or says what it said before."""
    pairs = [
        [run(Scenario.parse(text, "s", [f"seed={seed}"]), plan.scratch / f"runs-{k}").path for seed in (0, 1)]
        for k, text in enumerate(TEXTS)
    ]
    truth = [{name: ask() for name, ask in readers(text, pair[0], True).items()} for text, pair in zip(TEXTS, pairs)]

    def case(number: int) -> Outcome:
        rng = np.random.default_rng([plan.seed, number])
        k, what = int(rng.integers(len(TEXTS))), None
        while what is None:
            folder = copied(pairs[k][0], plan.scratch / "r" / "damaged" / pairs[k][0].name)
            what = damaged(folder, pairs[k][1], rng)
        wrong, counts = [], Counter()
        for name, ask in readers(TEXTS[k], folder, number % DRAWN_FOR == 0).items():
            if name == "run" and what == (folder / "summary.json", "remove"):
                continue  # no finished run is left: it is played, not believed
            try:
                with redirect_stderr(StringIO()):
                    found = ask()
            except SimflError as error:
                counts["refused, exit 4" if isinstance(error, IntegrityError) else "refused otherwise"] += 1
            except Exception as error:
                wrong.append(f"{name} crashed, {what[0].name} {what[1]}: {type(error).__name__}: {error}")
            else:
                if found == truth[k][name]:
                    counts["not concerned"] += 1
                else:
                    wrong.append(f"{name} believed, {what[0].name} {what[1]}")
        return Outcome(tuple(wrong), counts)

    return case


# -- beside a run that plays, a served run, a sweep, a comparison ----------------------------------------

SERVED = """
name: damaged
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 8}
learning: {data: digits, model: logistic, backend: {name: external, clients: [0, 1, 2]}}
"""


class Pods(Desk):
    """Clients outside that answer at once, each job with an update of its own."""

    def ask(self, asked):
        super().ask(asked)
        for each in asked:
            delta = np.random.default_rng(each.job.id).normal(size=len(each.model)) * 0.01
            if each.job.id in self._open:
                self.tell(each.job.client, {"loss": 0.5})
                self.update(each.job.client, each.job.id, encoded(delta.astype(np.float32)), float(each.job.id % 7))


def served(scenario: Scenario, out: Path, **how: object) -> Path:
    """Plays a scenario whose clients outside are here."""
    folder = out / scenario.name / scenario.digest
    desk = Pods(scenario.learning.external, Updates(folder), "token", 10.0, {})
    if not folder.exists() or not (folder / "joined").exists():
        for client in scenario.learning.external:
            desk.join("pod", client)
    return run(scenario.using(outside=desk), out, **how).path


def told(folder: Path) -> object:
    """What ``watch`` and ``ls`` say of a folder without the times; an error that they show is raised."""
    state = Watched(folder).look()
    entries = [entry.document() for several in listed(folder).values() for entry in several]
    said = [run["error"] for run in state["runs"]] + [entry["error"] for entry in entries]
    if any(said):
        raise SimflError("; ".join(filter(None, said)))
    for one in state["clients"]:
        one.pop("seen_s", None)
    shown(state)
    for entry in entries:
        entry.pop("path")
    return json.dumps([state, entries])


def torn(path: Path, kind: str) -> bool:
    """Whether it only looks as if less had been played: the end of the seals is off, or a client has told nothing."""
    return path.name.endswith(SEALS) and kind in ("cut", "drop") or path.parent.name == "joined" and kind == "remove"


def beside(plan: Plan) -> Case:
    """A file of a run that stopped, of a served one or of a comparison; every reader, and going on."""

    def stop(done: int, rounds: int, time_s: float) -> None:
        if done == 5:
            raise _Stop

    def stopped(text: str, seed: int, play) -> tuple[Path, dict]:
        scenario = Scenario.parse(text, "s", [f"seed={seed}"])
        whole = files(play(scenario, plan.scratch / f"whole-{seed}"))
        try:
            play(scenario, plan.scratch / f"stopped-{seed}", progress=stop)
        except _Stop:
            pass
        return plan.scratch / f"stopped-{seed}" / scenario.name / scenario.digest, whole

    def plain(scenario: Scenario, out: Path, **how: object) -> Path:
        return run(scenario, out, **how).path

    (plan.scratch / "s.yaml").write_text(ASYNCHRONOUS)
    grid = axes(["training.buffer=2,3", "seed=0,1"])

    def compared(out: Path) -> dict:
        made = compare(planned(str(plan.scratch / "s.yaml"), grid, 1, ()), out, How(jobs=1))
        return files(made.path)

    whole = compared(plan.scratch / "compared")
    (comparison,) = (plan.scratch / "compared").glob("*/compare-*")
    kinds = [
        (stopped(text, seed, play), stopped(text, seed + 1, play), text, seed, play)
        for text, seed, play in ((SYNCHRONOUS, 10, plain), (ASYNCHRONOUS, 20, plain), (SERVED, 30, served))
    ]

    def readers(folder: Path) -> dict:
        return {
            "told": lambda: told(folder),
            "page": lambda: page(read_study([folder])),
            "opened": lambda: tables(opening.open(folder)),
            "exported": lambda: all_rounds(folder).to_csv(),
        }

    def tables(found) -> list:
        return [table.to_csv() for table in (found.runs, found.means, found.paired)]

    truth = {name: ask() for name, ask in readers(comparison).items()}

    def asked(ask, name: str, true: object, what, counts: Counter, wrong: list) -> None:
        said = StringIO()
        try:
            with redirect_stderr(said), redirect_stdout(StringIO()):
                found = ask()
        except SimflError as error:
            counts["refused, exit 4" if isinstance(error, IntegrityError) else "told"] += 1
        except Exception as error:
            wrong.append(f"{name} crashed, {what[0].name} {what[1]}: {type(error).__name__}: {error}")
        else:
            if found == true or torn(*what):
                counts["not concerned"] += 1
            else:
                wrong.append(f"{name} believed, {what[0].name} {what[1]}: {said.getvalue()}")

    def case(number: int) -> Outcome:
        rng, what = np.random.default_rng([plan.seed, number]), None
        wrong, counts = [], Counter()
        if (k := int(rng.integers(4))) == 3:
            while what is None:
                copied(comparison.parent, plan.scratch / "c" / comparison.parent.name)
                folder = plan.scratch / "c" / comparison.parent.name / comparison.name
                what = damaged(folder, comparison.parent, rng)
            for name, ask in readers(folder).items():
                if name != "page" or number % DRAWN_FOR == 0:
                    asked(ask, name, truth[name], what, counts, wrong)
            if number % 10 == 0:
                asked(lambda: compared(plan.scratch / "c"), "compare", whole, what, counts, wrong)
            return Outcome(tuple(wrong), counts)
        (source, true), (twin, _), text, seed, play = kinds[k]
        while what is None:
            folder = copied(source, plan.scratch / "p" / source.parent.name / source.name)
            before = told(folder)
            what = damaged(folder, twin, rng)
        asked(lambda: told(folder), "watch and ls", before, what, counts, wrong)
        scenario = Scenario.parse(text, "s", [f"seed={seed}"])
        asked(lambda: files(play(scenario, plan.scratch / "p")), "going on", true, what, counts, wrong)
        return Outcome(tuple(wrong), counts)

    return case


# -- the cache of decoded data ----------------------------------------------------------------------------


def cache(plan: Plan) -> Case:
    """An entry of two arrays: decoded again, or true."""
    home = plan.scratch / "cache"
    arrays = {"x": np.arange(50_000, dtype=np.float32), "y": np.arange(50_000) % 7}
    with mock.patch.dict(os.environ, {"SIMFL_CACHE": str(home)}):
        cached("twin v1", [], lambda: {name: np.zeros_like(array) for name, array in arrays.items()})
        (twin,) = home.iterdir()
        cached("some v1", [], lambda: arrays)
    entry = next(path for path in home.iterdir() if path != twin)
    whole = shutil.copytree(entry, plan.scratch / "whole")

    def case(number: int) -> Outcome:
        rng, decoded = np.random.default_rng([plan.seed, number]), []
        while damaged(copied(whole, entry), twin, rng) is None:
            pass
        with mock.patch.dict(os.environ, {"SIMFL_CACHE": str(home)}):
            found = cached("some v1", [], lambda: decoded.append(1) or arrays)
        true = found.keys() == arrays.keys() and all((found[name] == arrays[name]).all() for name in arrays)
        return Outcome(() if true else ("believed",), {"decoded again" if decoded else "not concerned": 1})

    return case


CHECKS = (
    Check(3, "resumed", "a bit flipped in, or an end cut off, a checkpoint or growing table of an interrupted run; "
          "the same bytes, or refused with the file's name, exit 4", "damages", (10, 400, 4_000), resumed),
    Check(3, "finished", "a file of a finished run changed (bits, ends, digits, lines, swapped, removed); each reader "
          "refuses or says what is true", "damages", (1, 60, 1_500), finished),
    Check(3, "beside", "a file changed of a run that plays, synchronous, asynchronous or served, or of a "
          "comparison; watch, ls, report, export, reading in Python and going on refuse, say so, or say what is true",
          "damages", (1, 40, 3_500), beside),
    Check(3, "cache", "a file of the cache of decoded data changed; decoded again, or true",
          "damages", (5, 200, 2_000), cache),
)  # fmt: skip
