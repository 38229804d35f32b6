"""What a run prints, held against what a recorder saw crossing the wire; nothing here asks simfl how it comes to it."""

import csv
import json
from pathlib import Path

import numpy as np

from simfl.core import coverage
from simfl.core.errors import ScenarioError
from simfl.core.registration.protocol import plain
from simfl.core.rng import Streams
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.support.kills import Killed, counted
from tests.support.messages import decoded, message
from tests.support.wiretap import Sum, Tape, recorded

GUARANTEES = "privacy_strong", "privacy_semi_strong", "privacy_weak_lower", "privacy_weak_upper"
EPSILONS = "epsilon_max", "epsilon_median", "epsilon_rdp", "epsilon_pld"
OWN_EPSILONS = "epsilon_weight", "epsilon_model"


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def judged(scenario: Scenario, folder: Path, tape: Tape) -> list[str]:
    """What a finished run prints and its recording denies, in words.

    Nothing here asks simfl how it comes to its certificates: they are held against what crossed the wire.
    """
    wrong, rows = [], table(folder / "rounds.csv")
    declared = {part.kind for part in coverage.sent(scenario)} - {"samples"}
    crossed = tape.kinds()
    if crossed - declared:
        wrong.append(f"sends {crossed - declared}, which is not declared")
    chance = {"departure", *(["mask"] if scenario.training.asynchronous else [])}  # coordinates may happen to be alike
    wrong += [f"declares {kind} and never sends it" for kind in declared - crossed - chance if tape.uploads]
    summary = json.loads((folder / "summary.json").read_text())
    called_clear = {part.kind for part in coverage.sent(scenario) if part.name in summary["in_clear"]} - {"samples"}
    codes, shown = tape.told_by_codes(), tape.uploads and not scenario.secagg.assumes  # else a trusted party gets them
    in_codes = codes if noisy_codes(tape) else set()
    seen_clear = (crossed - {"update"} - in_codes) | ({"update"} if shown and in_clear(tape) else set())
    if "update" in crossed and tape.sums and seen_clear - called_clear:
        wrong.append(f"calls {called_clear} clear; on the wire {seen_clear} is")
    if "update" in called_clear and any(found.wire for found in tape.sums):
        wrong.append("calls updates clear that a protocol has masked")
    alone = any(s.mask is not None and (s.mask[s.weights > 0].sum(axis=0) == 1).any() for s in tape.sums)
    exposed = bool(crossed - {"update"}) or alone
    exposed |= not (scenario.training.aggregate.sum_only or scenario.secagg.sums_units)
    outside = all(stage.observer in ("", "outside") for stage in scenario.privacy.stages)
    open_parts = crossed - {"update"} - (codes if outside else in_codes)
    entries, members = table(folder / "participation.csv"), set()
    for row in rows:
        members |= {entry["client"] for entry in entries if entry["round"] == row["round"]}
        values = [float(row[name]) for name in GUARANTEES if row[name]]
        if exposed and any(value != 1 for value in values):
            wrong.append(f"round {row['round']}: single clients can be told, but the columns say {values}")
        if not crossed and values:
            wrong.append(f"round {row['round']}: nothing was sent, but the columns say {values}")
        said = [name for name in EPSILONS if row.get(name)]
        own = [name for name in OWN_EPSILONS if row.get(name)]
        if own and open_parts:
            wrong.append(f"round {row['round']}: {own} say {[row[name] for name in own]} beside {crossed}")
        if said and open_parts:
            wrong.append(f"round {row['round']}: {said} say {[row[name] for name in said]} beside {crossed}")
        if any(float(row[name]) for name in said) and not scenario.privacy.protects:
            wrong.append(f"round {row['round']}: an epsilon without noise")
        if 2 * len(members) <= scenario.clients:  # most have never been in a sum: their median is 0
            said = [name for name in said if name != "epsilon_median"]
        if crossed and any(float(row[name]) == 0 for name in said) and not scenario.privacy.protects and members:
            wrong.append(f"round {row['round']}: an epsilon of 0 without noise")
    for name in (name for name in EPSILONS if name in rows[-1]):
        if summary[name] != (float(rows[-1][name]) if rows[-1][name] else None):
            wrong.append(f"the summary says {name} {summary[name]}, the last round {rows[-1][name]}")
    for name in (name for name in OWN_EPSILONS if name in rows[-1]):
        said = [row[name] for row in rows if float(row["cardinality"] or 0)]
        if "" in said and summary[name] is not None:
            wrong.append(f"the summary says {name} {summary[name]}, the rounds {said}")
    return wrong + unequal_bytes(scenario, folder, tape, rows)


def in_clear(tape: Tape) -> bool:
    """Whether coordinates of some client's update crossed the wire as training made them, but for one factor."""
    return any(
        found.weights[i] and np.any(made) and _shown(found, i)
        for found in tape.sums
        for i, made in enumerate(found.made)
    )


def noisy_codes(tape: Tape) -> bool:
    """Whether noise was in what was compressed, so that codes tell of the noisy update only."""
    coded = [found for found in tape.sums if found.coded is not None and found.coded[0].shape == found.made.shape]
    return bool(coded) and not any(
        found.weights[i] and np.any(made) and _proportional(made, found.coded[0][i])
        for found in coded
        for i, made in enumerate(found.made)
    )


def _shown(found: Sum, i: int) -> bool:
    if found.wire:  # under masks every number is another, but for one in four billion
        return any((before == after).mean() > 1e-3 or before[0] == after[0] for before, after in found.wire[i : i + 1])
    return _proportional(found.made[i], found.staged[i][: len(found.made[i])])


def _proportional(made: np.ndarray, sent: np.ndarray) -> bool:
    """Whether many of the numbers that are sent are those that were made, times one factor."""
    there = np.flatnonzero((made != 0) & (sent != 0))
    if not there.size:
        return False
    there = there[np.unique(_digits(made[there]), return_index=True)[1]]  # equal ones give equal ratios of a few levels
    _, counts = np.unique(_digits(sent[there] / made[there]), return_counts=True)
    return bool(counts.max() > max(3, 0.05 * len(there)))


def _digits(numbers: np.ndarray) -> np.ndarray:
    """Four of each."""
    return np.float32([f"{number:.3e}" for number in numbers])


def beside(scenario: Scenario, found: Sum) -> int:
    """The bytes that go up with the updates of a sum, beside four for each number: by the papers' steps."""
    protocol, n, members = scenario.secagg, len(found.jobs), min(60, scenario.clients)
    if protocol.name == "opa":  # numbers of six bytes, and for each member a share of a seed of 2048 times 16 bytes
        code = protocol.code(members, 1)
        return n * (2 * len(found.wire[0][1]) + members * (20 + 16 * -(-2048 // (code.survivors - code.private))))
    if protocol.name == "flamingo":  # shares of 36 bytes, sealed, and ciphertexts of seeds for each neighbour
        neighbours = protocol.graph(n, found.jobs[0].selection, Streams(scenario.seed)).sum()
        return n * members * (36 + 16) + int(neighbours) * (33 + 32)
    return 0


def unequal_bytes(scenario: Scenario, folder: Path, tape: Tape, rows: list[dict[str, str]]) -> list[str]:
    """The bytes of the updates beside those on the tape; of synchronous rounds in which nobody failed."""
    if scenario.training.server != "synchronous" or any(int(row["failed"]) for row in rows):
        return []
    phases = table(folder / "phases.csv") if (folder / "phases.csv").exists() else []
    charged = sum(int(row["bytes_up"]) for row in rows) - sum(int(row["bytes_up"]) for row in phases)
    n = scenario.clients
    charged -= 8 * len(tape.alone) * n + sum(size(tape, upload) for upload in tape.alone) if tape.alone else 0
    counted_here = 0
    for found in tape.sums:
        counted_here += beside(scenario, found) if found.wire else 0
        for i, job in enumerate(found.jobs):
            if found.wire:
                counted_here += 4 * len(found.wire[i][1])
            elif job.id in tape.uploads:
                counted_here += 8 * len(scenario.selection.reads & {"loss", "loss_rms", "accuracy"})
                counted_here += tape.upload_bytes(job.id) + 4 * (found.staged.shape[1] - found.made.shape[1])
                if found.coded is not None:
                    counted_here += coded_bytes(scenario, found, i) - 4 * found.coded[0].shape[1]
    summed = sum(len(found.jobs) for found in tape.sums)
    if summed != sum(int(row["cardinality"]) for row in rows):
        return []
    return [] if charged == counted_here else [f"{charged} bytes of updates are charged, {counted_here} crossed"]


def coded_bytes(scenario: Scenario, found: Sum, i: int) -> int:
    """The length of a compressed update as it can really be written, from which all of it can be read."""
    (entered, read), public = found.coded, found.public[i]
    compression = plain(scenario.compression)
    sent = message(compression, entered[i], read[i], public)
    assert np.array_equal(decoded(compression, sent, read.shape[1], public), read[i]), "the message says something else"
    return len(sent)


def size(tape, upload):
    tape.uploads[-1] = upload
    return tape.upload_bytes(-1)


def played(text: str, out: Path) -> tuple[Scenario, Path, Tape]:
    scenario = Scenario.parse(text, "pair")
    with recorded() as tape:
        folder = run(scenario, out).path
    return scenario, folder, tape


def gone_on(scenario: Scenario, out: Path) -> Path:
    """The folder of the same run, killed in the middle of its writing and gone on with."""
    with counted() as steps:
        run(scenario, out / "whole")
    try:
        with counted(steps.done // 2):
            run(scenario, out / "killed")
    except Killed:
        pass
    return run(scenario, out / "killed").path


def tried(text: str, out: Path, killed: bool = False) -> list[str] | None:
    """What is wrong with a scenario that was read without complaint, in words.

    Args:
        text: YAML.
        out: an empty folder.
        killed: whether it is also played with a kill in the middle, to compare.

    Returns:
        None where it is refused, in one line, before its first round: only what a partition deals may be the reason.
    """
    try:
        scenario, folder, tape = played(text, out / "recorded")
    except ScenarioError as error:
        left = [path.name for path in out.rglob("rounds.csv*")]
        dealt = json.loads(text)["learning"]["partition"] != "iid"
        return None if dealt and not left and "\n" not in str(error) else [f"refused after it began: {error}"]
    wrong = judged(scenario, folder, tape)
    if killed and (gone_on(scenario, out) / "rounds.csv").read_bytes() != (folder / "rounds.csv").read_bytes():
        wrong.append("another rounds.csv after a kill")
    return wrong
