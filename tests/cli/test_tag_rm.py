"""Names, tags and notes belong to no digest; ``simfl ls rm`` removes results, whole, and nothing else."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import simfl
from simfl.cli import simfl as group
from simfl.core.errors import SimflError
from simfl.results.notes import Notes, read_notes
from tests.support.damages import unfinish
from tests.support.kills import files

pytestmark = pytest.mark.usefixtures("sweeps_here")


SMALL = """
name: small
clients: 10
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 3}
learning: {name: none, parameters: 10}
privacy: none
"""


def call(*words, **options):
    return CliRunner().invoke(group, list(map(str, words)), **options)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)


def run(*words):
    done = call("run", "small.yaml", "-q", *words)
    assert done.exit_code == 0, done.output
    return Path(done.stdout.strip())


def results():
    """Results by their state, as simfl ls has them."""
    return {entry["path"]: entry["state"] for entry in json.loads(call("ls", "--json").stdout)}


def sweep(seeds, *words):
    """A sweep whose runs were run before, so that it starts no worker."""
    for seed in seeds:
        simfl.run("small.yaml", seed=seed)
    done = call("sweep", "small.yaml", f"seed={','.join(map(str, seeds))}", "-q", *words)
    assert done.exit_code == 0, done.output
    return Path(done.stdout.strip()).parent


# -- names, tags, notes ---------------------------------------------------------------------------


def test_notes_change_no_result_and_a_complete_run_gets_them():
    plain, before = run("--out", "plain"), run()
    bytes_before = files(before)
    after = run("--name", "base", "--tag", "b", "--tag", "a", "--note", "two\nlines")
    assert after == before and {**files(after), "notes.json": None} == {**bytes_before, "notes.json": None}
    assert run("--tag", "c", "--name", "better") == before
    assert read_notes(before) == Notes("better", ("a", "b", "c"), "two\nlines")
    assert files(plain) == bytes_before and plain.name == before.name
    assert call("run", "--verify", before).exit_code == 0
    run("--force")  # results are written anew, notes stay
    assert read_notes(before).name == "better"
    fresh = run("--out", "fresh", "--tag", "x")
    assert files(fresh).keys() - {"notes.json"} == bytes_before.keys() and read_notes(fresh).tags == ("x",)


def test_notes_from_python_and_of_sweeps():
    result = simfl.run("small.yaml", run_name="mine", tags="t", note="n", seed=4)
    assert read_notes(result.path) == Notes("mine", ("t",), "n")
    simfl.run("small.yaml", seed=5)
    simfl.sweep("small.yaml", {"seed": [4, 5]}, run_name="both", tags=["s"], progress=False)
    (swept,) = Path("results/small").glob("sweep-*")
    assert read_notes(swept) == Notes("both", ("s",)) and read_notes(result.path).tags == ("s", "t")
    assert sorted(read_notes(path.parent).tags for path in swept.parent.glob("*/summary.json")) == [("s",), ("s", "t")]
    for k in (2, 3):
        simfl.run("small.yaml", {"selection.k": k})
    compared = simfl.compare("small.yaml", {"selection.k": [2, 3]}, replications=1, tags=["c"], progress=False)
    assert read_notes(compared.path).tags == ("c",)


def test_ls_calls_runs_by_name_words_and_tags(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    one = run("--name", "base", "--tag", "a")
    two = run("selection.k=5", "seed=3", "--tag", "a", "--tag", "b")
    run("selection.k=6")
    lines = [line.split() for line in call("ls").stdout.splitlines()]
    assert lines[0] == ["small"] and lines[1] == ["state", "seed", "rounds", "accuracy", "run", "digest"]
    assert lines[2][:-1] == ["done", "0", "3", '"base"', "k=4", "#a"] and one.name.startswith(lines[2][-1])
    assert lines[3] == ["done", "3", "3", "k=5", "#a", "#b", two.name[:6]]
    tagged = json.loads(call("ls", "--json", "--tag", "a", "--tag", "b").stdout)
    assert [(entry["path"], entry["tags"]) for entry in tagged] == [(str(two), ["a", "b"])]
    assert call("ls", "--tag", "a").stdout.count("#a") == 2
    nothing = call("ls", "--tag", "zzz")
    assert (nothing.exit_code, nothing.stdout, nothing.stderr) == (0, "", "results: no results with the tag zzz\n")


def test_tags_are_changed_later_by_name_digest_or_path():
    one, two = run("--name", "base", "--tag", "a", "--note", "n"), run("seed=2")
    done = call("ls", "tag", "base", two.name[:6], "--tag", "b", "--untag", "a")
    assert done.exit_code == 0 and done.stdout == f"{one}\nname: base\ntags: b\nnote: n\n{two}\ntags: b\n"
    assert call("ls", "tag", one, "--name", "", "--untag", "b", "--note", "").stdout == f"{one}\n"
    assert not (one / "notes.json").exists()  # nothing is left to say
    unfinish(two, 2)
    with open(two / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a run in progress
        assert call("ls", "tag", two, "--tag", "now").exit_code == 0
    assert read_notes(two).tags == ("b", "now")


def test_show_prints_notes_above_what_the_run_was_made_from():
    path = run("--name", "base", "--tag", "a", "--note", "two\nlines", "seed=3")
    shown = call("show", path).stdout
    assert shown.startswith("# name: base\n# tags: a\n# note: two\\nlines\nname: small\nseed: 3\n")
    Path("again.yaml").write_text(shown)
    assert simfl.load("again.yaml", name="small").digest == path.name  # what is printed is a scenario again
    Path("base.yaml").write_text(SMALL)
    assert call("show", "base").stdout.startswith("name: small\nseed: 0\n")  # a scenario comes first
    Path("base.yaml").unlink()
    document = json.loads(call("show", "base", "--json").stdout)
    assert document["tags"] == ["a"] and document["scenario"]["seed"] == 3
    assert call("show", path, "seed=4").exit_code == 2
    assert call("show", sweep([3, 4], "--name", "both")).stdout.startswith(
        "# name: both\nname: small\nfile: small.yaml\n"
    )


def test_other_commands_take_names_and_digests():
    path = run("--name", "base")
    for word in ("base", path.name[:6], path.name):
        assert call("run", "--verify", word).exit_code == 0
        assert call("export", word, "--rounds", "all.csv").stdout == "all.csv\n"
    run("seed=2", "--name", "base")
    twice = call("run", "--verify", "base")
    assert twice.exit_code == 2 and "base: 2 folders of results are meant by that: results/small/" in twice.stderr
    missing = call("run", "--verify", "bsae")
    assert (missing.exit_code, missing.stderr) == (
        2, "bsae: no such run, sweep or comparison in results; did you mean 'base'?\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tag", "two words"], "tag 'two words': a tag is one word of at most 50 characters, without commas"),
        (["--tag", "a,b"], "tag 'a,b': a tag is one word of at most 50 characters, without commas"),
        (["--tag", ""], "tag '': a tag is one word of at most 50 characters, without commas"),
        (["--name", "x\ny"], "name 'x\\ny': a name is one line of at most 100 characters"),
        (["--note", "x" * 5001], "note: at most 5000 characters"),
    ],
)
def test_wrong_notes_are_one_line_and_nothing_is_run(words, message):
    done = call("run", "small.yaml", *words)
    assert (done.exit_code, done.stderr) == (2, message + "\n") and not Path("results").exists()
    path = run("--tag", "kept")
    for done in (call("ls", "tag", path, *words), call("sweep", "small.yaml", "seed=0,1", *words)):
        assert (done.exit_code, done.stderr) == (2, message + "\n")
    assert read_notes(path).tags == ("kept",)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"name": "other"}', b"[" * 100_000])
def test_damaged_notes_are_one_line_and_keep_nothing_from_being_read(data):
    path = run("--name", "base")
    (path / "notes.json").write_bytes(data)
    with pytest.raises(SimflError, match=r"notes.json: damaged"):
        read_notes(path)
    done = call("ls")
    assert done.exit_code == 0 and done.stdout.splitlines()[2].startswith("done ")
    assert "notes.json: damaged" in json.loads(call("ls", "--json").stdout)[0]["error"]
    again = call("run", "small.yaml", "--tag", "a")
    assert again.exit_code == 4 and again.stderr.count("\n") == 1
    assert call("run", "--verify", path.name).exit_code == 0 and simfl.open(path).path == path


# -- rm -------------------------------------------------------------------------------------------


def test_rm_asks_and_removes_what_was_named():
    one, two = run("--name", "base"), run("seed=2")
    unfinish(two, 2)
    (one / "figure.svg").write_text("")
    no = call("ls", "rm", "base", input="n\n")
    assert no.exit_code == 1 and one.exists() and f"small/{one.name}" in no.stderr
    assert call("ls", "rm", "base", input="").exit_code == 1 and one.exists()  # nobody answers
    yes = call("ls", "rm", "base", input="y\n")
    assert yes.exit_code == 0 and yes.stdout == f"removed small/{one.name}\n" and results() == {str(two): "stopped"}
    assert call("ls", "rm", two, "--yes").exit_code == 0 and os.listdir("results") == []


def test_rm_of_a_sweep_leaves_runs_that_others_have():
    sweep([0, 1, 2], "--name", "three")
    sweep([2, 3], "--name", "two")
    assert call("ls", "rm", "three", "--yes").exit_code == 0
    assert len(list(Path("results/small").glob("*/summary.json"))) == 4  # the runs stay
    sweep([0, 1, 2], "--name", "three")
    assert call("ls", "rm", "three", "--with-runs", "--yes").exit_code == 0
    kept = [json.loads(path.read_text())["seed"] for path in Path("results/small").glob("*/summary.json")]
    assert sorted(kept) == [2, 3] and simfl.open(next(Path("results/small").glob("sweep-*"))).failed.empty


def test_rm_spares_runs_while_it_is_not_known_whose_they_are():
    sweep([0, 1], "--name", "one")
    sweep([1, 2], "--name", "two")
    other = next(path for path in Path("results/small").glob("sweep-*") if "two" in (path / "notes.json").read_text())
    (other / "index.csv").write_text("damaged")
    refused = call("ls", "rm", "one", "--with-runs", "--yes")
    assert refused.exit_code == 2 and "which runs belong to it is not known" in refused.stderr
    assert len(list(Path("results/small").glob("*/summary.json"))) == 3


def test_rm_refuses_what_is_not_its_own(tmp_path):
    path, other = run(), run("--out", "other")
    mine = Path("results/small/thesis")
    mine.mkdir()
    (mine / "chapter.tex").write_text("years of work")
    (mine / "summary.json").write_text("{}")  # somebody else's file of that name
    outside = tmp_path / "outside"
    shutil.copytree(path, outside)
    Path("results/small/aaaaaaaaaaaa").symlink_to(outside)
    Path("results/linked").symlink_to(tmp_path / "other" / "small")
    shutil.copytree(path, Path("results/small/deep/er/bbbbbbbbbbbb"))
    for target, why in [
        (mine, "holds no run, sweep or comparison of simfl; nothing was removed"),
        (other, "is not in results; --out names another folder of results"),
        (outside, "is not in results; --out names another folder of results"),
        (path / ".." / ".." / "..", "is not in results; --out names another folder of results"),
        ("results", "is no run, sweep or comparison in results"),
        ("results/small", "is no run, sweep or comparison in results"),
        (path / "rounds.csv", "is no run, sweep or comparison in results"),
        ("results/small/deep/er/bbbbbbbbbbbb", "is no run, sweep or comparison in results"),
        ("results/small/aaaaaaaaaaaa", "is a link; simfl removes nothing through links"),
        (f"results/linked/{path.name}", "is a link; simfl removes nothing through links"),
    ]:
        before = sorted(str(each) for each in tmp_path.rglob("*"))
        done = call("ls", "rm", path, target, "--yes")  # also keeps the one that could go
        assert done.exit_code == 2 and done.stderr.endswith(f"{why}\n") and done.stderr.count("\n") == 1, target
        assert sorted(str(each) for each in tmp_path.rglob("*")) == before
    (path / "elsewhere").symlink_to(outside)
    assert call("ls", "rm", path, "--yes").exit_code == 0  # the link inside goes, what lies behind it stays
    assert not path.exists() and (outside / "summary.json").exists() and other.exists()


def test_rm_takes_damaged_and_renamed_runs():
    damaged, renamed = run(), run("seed=2")
    (damaged / "summary.json").write_text("{")
    renamed.rename("results/small/the good one")
    assert call("ls", "rm", damaged, "results/small/the good one", "--yes").exit_code == 0
    assert os.listdir("results") == []


def test_rm_keeps_what_a_process_is_working_on():
    path = run()
    with open(path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = call("ls", "rm", path, "--yes")
    assert done.exit_code == 2 and "a process is at work here" in done.stderr and results() == {str(path): "done"}
    swept = sweep([0, 1])
    with open(swept / ".lock-1-of-2", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert call("ls", "rm", swept, "--yes").exit_code == 2 and swept.exists()


def test_a_kill_at_any_step_leaves_the_run_whole_or_nothing_that_looks_like_one(monkeypatch):
    class Killed(BaseException):
        pass

    real = os.unlink
    for step in range(12):
        path = run()
        left = iter(range(step))

        def unlink(*where, left=left, **how):
            if next(left, None) is None:
                raise Killed
            real(*where, **how)

        monkeypatch.setattr(os, "unlink", unlink)
        with pytest.raises(Killed):
            call("ls", "rm", path, "--yes", catch_exceptions=True)
        monkeypatch.setattr(os, "unlink", real)
        assert results() == {} and call("report", "results").exit_code == 2
    run("seed=7")
    assert call("ls", "rm", run("seed=8"), "--yes").exit_code == 0  # and the next removal tidies up
    assert [path.name for path in Path("results/small").iterdir() if path.name.startswith(".")] == []
