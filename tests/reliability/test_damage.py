"""What vouches for the files of a run in progress, a failed run and a member of a sweep; what the campaign damages."""

from pathlib import Path

import pytest

from simfl.api.results_index import list_entries
from simfl.core.errors import IntegrityError
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.experiments.sweep.execution import execute
from simfl.experiments.sweep.plan import plan_sweep
from simfl.report.live.live_clients import LiveClients
from simfl.report.live.watched_folder import WatchedFolder
from simfl.report.study_reader import read_study
from simfl.results import checkpoint
from simfl.results.client_updates import UpdateStore
from simfl.results.file_names import LAST, OWN, SWEEPS
from simfl.results.folder import ResultsFolder, UnfinishedTable
from simfl.results.sealed_files import read_failure, write_failure
from simfl.results.tables import TableWriter
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability import damage
from tests.reliability.check import Plan
from tests.reliability.damage_subjects import Here, finished, playing, swept
from tests.support.damages import growing
from tests.support.swept_axes import axes

TEXT = """
name: small
clients: 6
selection: {name: random, k: 3}
training: {name: fedavg, rounds: 4}
learning: {name: none, parameters: 5}
"""


@pytest.fixture
def table(tmp_path):
    """A table of nine rounds, sealed after each."""
    made = TableWriter(tmp_path / "rounds.csv", ("round", "a"))
    for row in range(9):
        made.append([[row, 2 * row]])
        made.mark()
    yield tmp_path / "rounds.csv.seals.part"
    made.close()


def without(seals, lines):
    """Cuts lines off the end of the seals."""
    seals.write_text("".join(seals.read_text().splitlines(keepends=True)[:-lines]))


@pytest.mark.parametrize("lines", [2, 5, 9])
def test_seals_of_several_rounds_that_are_gone_show(table, lines):
    assert UnfinishedTable(table.parent, "rounds.csv").look()
    without(table, lines)
    with pytest.raises(IntegrityError, match="rounds.csv.seals.part"):
        UnfinishedTable(table.parent, "rounds.csv").look()


def test_the_last_seal_may_be_missing_unless_a_checkpoint_reaches_further(table):
    """A kill comes between a row and its seal, but not between a seal and the checkpoint after it."""
    whole = UnfinishedTable(table.parent, "rounds.csv")
    assert whole.look()
    without(table, 1)
    part = UnfinishedTable(table.parent, "rounds.csv")
    assert part.look() and part.size < whole.size
    checkpoint.save(table.parent / "checkpoint", 8, {}, {"rounds.csv": (part.size, "")})
    assert UnfinishedTable(table.parent, "rounds.csv").look()
    checkpoint.save(table.parent / "checkpoint", 9, {}, {"rounds.csv": (whole.size, "")})
    with pytest.raises(IntegrityError, match="rounds.csv.seals.part"):
        UnfinishedTable(table.parent, "rounds.csv").look()
    (newest, _) = checkpoint.checkpoint_files(table.parent / "checkpoint")
    newest.write_bytes(b"damaged")  # the one before it vouches
    assert UnfinishedTable(table.parent, "rounds.csv").look()


def test_a_table_with_its_final_name_was_sealed_whole(table):
    table.with_name("rounds.csv.part").rename(table.with_name("rounds.csv"))
    assert UnfinishedTable(table.parent, "rounds.csv").look()
    without(table, 1)
    with pytest.raises(IntegrityError, match="rounds.csv.seals.part"):
        UnfinishedTable(table.parent, "rounds.csv").look()


def test_many_rows_of_one_round_may_be_without_their_seal(tmp_path):
    rows = "".join(f"3,{client},1.0\n" for client in range(5000))
    growing(tmp_path, "participation.csv", "round,client,weight\n2,0,1.0\n", rows + "3,50")
    assert UnfinishedTable(tmp_path, "participation.csv").look()
    growing(tmp_path, "participation.csv", "round,client,weight\n2,0,1.0\n", rows + "4,0,1.0\n")
    with pytest.raises(IntegrityError, match="participation.csv.seals.part"):
        UnfinishedTable(tmp_path, "participation.csv").look()


def test_the_file_of_a_client_that_has_joined_is_missed(tmp_path):
    scenario = Scenario.parse(TEXT, "s")
    folder = tmp_path / "small" / scenario.digest
    with pytest.raises(KeyboardInterrupt):
        run(scenario, tmp_path, progress=interrupted)
    jobs = RemoteJobs([0, 1], UpdateStore(folder), "t", 1.0, {})
    jobs.join("a", 0)
    RemoteJobs([0, 1], UpdateStore(folder), "t", 1.0, {}).join("b", 1)  # the server of a later day
    people = LiveClients(folder)
    assert people.look()[0]["name"] == "a" and people.look()[1]["name"] == "b" and not people.damages
    (folder / "joined" / "0.json").unlink()
    assert LiveClients(folder).look()[1]["name"] == "b"
    people.look()
    assert people.damages == [f"{folder / 'joined' / '0.json'}: gone, though the client has joined"]
    jobs.add_scores(0, {"loss": 1.0})
    people.look()
    assert not people.damages
    (folder / "joined" / "clients.json").write_text("{}")
    people.look()
    assert "clients.json: damaged" in people.damages[0]


def interrupted(done, rounds, time_s):
    if done == 2:
        raise KeyboardInterrupt


def test_a_failure_is_read_from_inside_its_folder(tmp_path, monkeypatch):
    folder = tmp_path / "small" / "0123456789ab"
    write_failure(folder_made(folder), "no luck")
    monkeypatch.chdir(folder)
    assert read_failure(Path("."))["error"] == "no luck"


def folder_made(folder):
    folder.mkdir(parents=True)
    return folder


def test_why_another_run_failed_is_not_believed(tmp_path):
    one, other = (folder_made(tmp_path / "small" / digest) for digest in ("0" * 12, "1" * 12))
    write_failure(one, "no luck", detail="at all")
    write_failure(other, "no memory")
    assert read_failure(one) == {"digest": one.name, "error": "no luck", "detail": "at all"}
    (one / "failed.json").write_bytes((other / "failed.json").read_bytes())
    with pytest.raises(IntegrityError, match="0/failed.json: of another run"):
        read_failure(one)
    found = {entry.digest: entry for entry in list_entries(tmp_path)["small"]}
    assert "of another run" in found[one.name].error and found[other.name].error == "no memory"


def test_what_another_run_was_made_of_is_not_believed(tmp_path):
    one, other = (run(Scenario.parse(TEXT, "s", [f"seed={seed}"]), tmp_path).path for seed in (0, 1))
    assert ResultsFolder.open(one).origins
    (one / "machine.json").write_bytes((other / "machine.json").read_bytes())
    assert ResultsFolder.open(one).origins == {}


def test_a_member_whose_summary_is_gone_is_damaged_and_not_just_missing(tmp_path):
    (tmp_path / "s.yaml").write_text(TEXT)
    plan = plan_sweep(str(tmp_path / "s.yaml"), axes(["seed=0,1"]))
    folder = tmp_path / "small" / f"sweep-{plan.digest}"
    execute(plan, tmp_path, folder, Here())
    (folder.parent / plan.members[0].digest / "summary.json").unlink()
    with pytest.raises(IntegrityError, match="begun.json: gone, or summary.json is"):
        read_study([folder])
    (first, second) = WatchedFolder(folder).look()["runs"]
    assert first["state"] == "failed" and "summary.json" in first["error"] and second["state"] == "done"
    execute(plan, tmp_path, folder, Here())
    assert len(read_study([folder]).members) == 2 and WatchedFolder(folder).look()["finished"]


# -- the campaign ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """The names of all files that the campaign's subjects have, those in folders of a run with the folder."""
    names = set()
    for subjects in (finished, playing, swept):
        for subject in subjects(tmp_path_factory.mktemp(subjects.__name__)):
            for path in subject.home.rglob("*"):
                names |= {"/".join(path.relative_to(subject.home).parts[1:])} if path.is_file() else set()
    return names


SEARCHES = {"search.csv", "together.json", "pruned.json"}
"""Damaged by tests/experiments/test_search.py."""


def test_the_campaign_damages_every_kind_of_file_that_is_written(left):
    tables = {name.removesuffix(".seals.part") for name in left if name.endswith(".seals.part")}
    assert {*OWN, *SWEEPS} - SEARCHES - {LAST} <= left  # that one is damaged in tests/runs/test_longer_run.py
    assert {f"{name}.part" for name in tables} <= left
    written = {
        *OWN,
        *SWEEPS,
        *(f"{name}{end}" for name in (*tables, "updates.csv") for end in (".part", ".seals.part")),
    }
    others = {name for name in left - written if not Path(name).name.startswith(".lock")}
    kinds = {f"{Path(name).parent}/*{Path(name).suffix}" for name in others}
    assert kinds == {"checkpoint/*.ckpt", "joined/*.json", "updates/*.npy"}


def buffered(scratch):
    """One subject, which is played quickly."""
    return [next(each for each in finished(scratch) if each.name == "buffered")]


def test_the_campaign_finds_readers_that_check_less(tmp_path, monkeypatch):
    """Readers of files whose digests are not looked at are found within a few damages."""
    monkeypatch.setattr("simfl.results.folder.ResultsFolder.file", lambda stored, name: stored.path / name)
    case = damage.campaign(buffered)(Plan(tmp_path / "c", 0, "smoke"))
    assert any("believed" in wrong for number in range(1, 12) for wrong in case(number).wrong)


def test_the_nightly_campaign_makes_five_thousand_damages():
    counts = {check.name: check.counts[-1] for check in damage.CHECKS}
    assert sum(counts[name] for name in ("finished", "beside", "swept")) >= 5000


def test_seed_and_number_decide_a_damage(tmp_path):
    first, second = (damage.campaign(buffered)(Plan(tmp_path / name, 3, "smoke")) for name in "ab")
    assert [first(number) for number in (1, 2, 3)] == [second(number) for number in (1, 2, 3)]
    assert sum(first(1).tally.values()) > 5
