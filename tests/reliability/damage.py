"""Bar 3: damage is seen, in all that runs, served runs, sweeps and comparisons leave, and in the cache."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np

from simfl.core.errors import IntegrityError, SimflError
from simfl.core.storage.data_folder import load_cached
from simfl.results import checkpoint
from simfl.results.file_names import FAILURE
from simfl.results.tables import SEALS
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability.check import Case, Check, Outcome, Plan
from tests.reliability.damage_readers import Told, readers
from tests.reliability.damage_subjects import BUFFERED, Stop, Subject, finished, playing, swept
from tests.support.damages import copied, damaged
from tests.support.kills import files

# -- every file of every kind of folder, and all who read it -----------------------------------------------


def campaign(subjects: Callable[[Path], Iterable[Subject]]) -> Callable[[Plan], Case]:
    """A random file of a random subject; whoever is asked refuses, says so, or says what is true."""

    def begin(plan: Plan) -> Case:
        known = [(subject, {}) for subject in subjects(plan.scratch)]

        def case(number: int) -> Outcome:
            rng = np.random.default_rng([plan.seed, number])
            subject, truth = known[rng.integers(len(known))]
            home = plan.scratch / "damaged" / subject.name / subject.home.name
            own = subject.folder if rng.random() < 0.5 else rng.choice(list(subject.twins))
            asked = [
                each for each in readers(subject, home / subject.folder, home / own, number) if not number % each.every
            ]
            for name, ask, _ in asked:
                if (name, own) not in truth:
                    copied(subject.home, home)
                    truth[name, own] = answer(ask)[0]
            what = None
            while what is None:
                copied(subject.home, home)
                what = damaged(home / own, subject.twins[own], rng)
            sound = subject.home / what[0].relative_to(home)
            wrong, counts = [], Counter()
            for name, ask, _ in asked:
                found, said = answer(ask)
                less = name in SHOWS_STATE and torn(sound, *what)
                judged = verdict(found, truth[name, own], less, what[0].name.removesuffix(".part"), said)
                counts[judged] += 1
                if judged in WRONG:
                    wrong.append(f"{name} {judged}, {subject.name}, {own}/{what[0].name} {what[1]}: {found!r} {said}")
            return Outcome(tuple(wrong), {name: count for name, count in counts.items() if name not in WRONG})

        return case

    return begin


SHOWS_STATE = {"watch", "watch --terminal", "ls", "report"}
"""Who says how far a run has come."""

BELIEVED, CRASHED, UNNAMED = WRONG = "believed", "crashed", "refused without its name"


def answer(ask: Callable[[], object]) -> tuple[object, str]:
    """What somebody answers, or the error; and what was printed on the way."""
    said = StringIO()
    try:
        with redirect_stderr(said), redirect_stdout(StringIO()):
            return ask(), said.getvalue()
    except Exception as error:  # whatever it is, it is judged
        return error, said.getvalue()


def verdict(found: object, true: object, less: bool, name: str, said: str = "") -> str:
    """
    Args:
        found: what is said of the damaged folder.
        true: of the sound one.
        less: whether it is asked how far a run has come, and it only looks as if less had been played.
        name: of the damaged file.
        said: on standard error.
    """
    if isinstance(found, IntegrityError):
        return "refused, exit 4" if name in f"{found}{said}" or isinstance(true, IntegrityError) else UNNAMED
    if isinstance(found, SimflError):
        return "refused otherwise" if not isinstance(true, SimflError) else "not concerned"
    if isinstance(found, Exception):
        return CRASHED
    if found == true or less:
        return "not concerned"
    if isinstance(found, Told) and isinstance(true, Told) and (errors := found.errors - true.errors):
        return "told" if any(name in error for error in errors) else UNNAMED
    return BELIEVED


def torn(sound: Path, path: Path, kind: str) -> bool:
    """Whether a kill could have left the same files, so that nobody can see the damage.

    The seal of the last round of a growing table is gone, and no checkpoint came after that round; or the file is gone
    that says why a run failed, and it looks as if the run had been interrupted, or were to be played again.
    """
    table = path.name.removesuffix(SEALS)
    if table == path.name or not path.with_name(f"{table}.part").exists():
        return path.name == FAILURE and kind == "remove"
    seals, before = (file.read_bytes().split(b"\n")[:-1] if file.exists() else [] for file in (path, sound))
    marks = [checkpoint.load(each)[1][table][0] for each in checkpoint.checkpoint_files(path.parent / "checkpoint")]
    return len(seals) > 0 and seals == before[:-1] and max(marks, default=0) < int(before[-1].split()[0])


# -- what an interrupted run goes on from --------------------------------------------------------------------


def resumed(plan: Plan) -> Case:
    """One bit or one end of a checkpoint, its predecessor or a growing table; it goes on, or says why not."""
    scenario = Scenario.parse(BUFFERED, "s", ["training.rounds=60"])
    whole = files(run(scenario, plan.scratch / "whole").path)

    def stop(done: int, rounds: int, time_s: float) -> None:
        if done == 37:
            raise Stop

    try:
        run(scenario, plan.scratch / "stopped", progress=stop)
    except Stop:
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


# -- the cache of decoded data ----------------------------------------------------------------------------


def cache(plan: Plan) -> Case:
    """An entry of two arrays: decoded again, or true."""
    home = plan.scratch / "cache"
    arrays = {"x": np.arange(50_000, dtype=np.float32), "y": np.arange(50_000) % 7}
    with mock.patch.dict(os.environ, {"SIMFL_CACHE": str(home)}):
        load_cached("twin v1", [], lambda: {name: np.zeros_like(array) for name, array in arrays.items()})
        (twin,) = home.iterdir()
        load_cached("some v1", [], lambda: arrays)
    entry = next(path for path in home.iterdir() if path != twin)
    whole = shutil.copytree(entry, plan.scratch / "whole")

    def case(number: int) -> Outcome:
        rng, decoded = np.random.default_rng([plan.seed, number]), []
        while damaged(copied(whole, entry), twin, rng) is None:
            pass
        with mock.patch.dict(os.environ, {"SIMFL_CACHE": str(home)}):
            found = load_cached("some v1", [], lambda: decoded.append(1) or arrays)
        true = found.keys() == arrays.keys() and all((found[name] == arrays[name]).all() for name in arrays)
        return Outcome(() if true else ("believed",), {"decoded again" if decoded else "not concerned": 1})

    return case


CHECKS = (
    Check(3, "resumed", "a bit flipped in, or an end cut off, a checkpoint or growing table of an interrupted run; "
          "the same bytes, or refused with the file's name, exit 4", "damages", (10, 400, 4_000), resumed),
    Check(3, "finished", "a file of a finished run changed (bits, ends, digits, lines, swapped, removed), served runs "
          "among them; every command that reads refuses, says so, or says what is true", "damages", (1, 30, 2_000),
          campaign(finished)),
    Check(3, "beside", "a file changed of a run in progress, synchronous, asynchronous, recorded or served, or is just "
          "being finished; every command that reads, and going on, likewise", "damages", (1, 10, 2_000),
          campaign(playing)),
    Check(3, "swept", "a file changed of a sweep or comparison or of a member, done, failed or open, after its end or "
          "while it is interrupted; every command that reads, and going on, likewise", "damages", (1, 15, 1_500),
          campaign(swept)),
    Check(3, "cache", "a file of the cache of decoded data changed; decoded again, or true",
          "damages", (5, 200, 2_000), cache),
)  # fmt: skip
