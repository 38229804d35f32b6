"""The command line: data on stdout, messages on stderr, one exit code for each kind of end."""

import errno
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from simfl import __version__
from simfl.cli import INSIDE, simfl
from simfl.core.errors import IntegrityError, MissingError, ScenarioError, nearest
from simfl.core.registration.family_index import FAMILIES
from simfl.core.registration.protocol import is_plugin
from simfl.results.notes import Notes
from simfl.scenario import Scenario
from simfl.scenario.resolution import walk
from tests.support.scenario_samples import GOOD

HOME = Path(__file__).resolve().parents[2]
SLOW = {
    "torch",
    "torchvision",
    "scipy",
    "networkx",
    "pandas",
    "matplotlib",
    "sklearn",
    "highspy",
    "simpy",
    "jinja2",
    "optuna",
}


def call(*words, **more):
    return CliRunner().invoke(simfl, list(map(str, words)), **more)


NOTE = (
    "secagg: not set, so ideal: numbers about privacy assume that only sums are seen; a protocol (simfl list "
    "secagg) costs time and bytes"
)


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD.replace("rounds: 60", "rounds: 3"))
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(GOOD.replace("k: 8", "kk: 8").replace("rounds: 60", "rounds: 0"))
    return path


def python(*words, cwd, **environment):
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


# -- start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [["--help"], ["run", "--help"], ["validate", "good.yaml"], ["show", "good.yaml"], ["show", "schema"], ["list"]],
    ids=str,
)
def test_help_and_checks_import_nothing_slow(good, words):
    code = f"""if True:
        import sys
        sys.argv = ["simfl", *{words!r}]
        from simfl.cli import main
        try:
            main()
        except SystemExit as end:
            assert end.code == 0
        print(sorted({SLOW!r} & set(sys.modules)), bool({{"pydantic", "numpy"}} & set(sys.modules)), file=sys.stderr)
    """
    result = python("-c", code, cwd=good.parent)
    assert result.stdout and result.stderr.split("\n")[-2].startswith("[] "), result.stderr
    if "--help" in words:
        assert result.stderr.endswith("[] False\n"), "help needs no scenario"


def test_a_command_imports_the_plugins_that_its_scenario_names_and_no_other(tmp_path):
    code = """if True:
        import sys
        from simfl.cli import main
        sys.argv = ["simfl", "validate", "quickstart"]
        try:
            main()
        except SystemExit:
            print(*sys.modules)
    """
    imported = set(python("-c", code, cwd=tmp_path).stdout.split())
    scenario = Scenario.load("quickstart")
    named = {type(plugin).__module__ for _, plugin in walk(scenario) if is_plugin(plugin)}
    assert named <= imported
    others = {module for registry in FAMILIES.values() for module in registry.modules.values()} - named
    assert others & imported <= {
        "simfl.learning.backends.choices", "simfl.clients.local_training", "simfl.secagg.base", "simfl.privacy.base",
    }  # fmt: skip
    assert not {"sklearn", "cryptography", *SLOW} & imported
    theory = (
        "simfl.privacy.multiround.basis",
        "simfl.privacy.multiround.matrix_metrics",
        "simfl.selection.theory.families",
        "simfl.runs.run",
        "simfl.agents",
    )
    assert not imported & {*theory, "simfl.secagg.crypto", "simfl.privacy.dp"}


def test_a_run_of_the_built_in_digits_imports_no_scikit_learn_and_no_pandas(tmp_path):
    code = """if True:
        import sys
        from simfl.learning.data.base import DATA
        DATA["digits"]().load(None, lambda purpose: __import__("numpy").random.default_rng(0))
        print(*sys.modules)
        from pathlib import Path
        from simfl.runs.run import run
        from simfl.scenario import Scenario
        run(Scenario.load("quickstart", ["training.rounds=1"]), Path("results"))
        print(*sys.modules)
    """
    loaded, played = (set(line.split()) for line in python("-c", code, cwd=tmp_path).stdout.splitlines())
    assert "simfl.learning.data.generated" in loaded and not {"sklearn", "pandas", "scipy", "torch"} & loaded
    assert "torch" in played and not {"sklearn", "pandas"} & played


def test_every_built_in_plugin_is_registered_by_the_module_that_its_family_names():
    for registry in FAMILIES.values():
        for name, module in registry.modules.items():
            assert registry[name].__module__ == module
        own = {name: cls.__module__ for name, cls in registry.items() if cls.__module__.startswith("simfl.")}
        others = {name: module for name, module in own.items() if name not in registry.modules}
        defined_by = FAMILIES.modules.get(registry.family)  # None: the servers, which no scenario names
        assert defined_by is None or set(others.values()) <= {defined_by}


def test_python_m_simfl_is_the_command(tmp_path):
    result = python("-m", "simfl", "--version", cwd=tmp_path)
    assert result.stdout == f"simfl {__version__}\n" and result.returncode == 0


def test_every_command_has_help():
    shown = call("--help").stdout
    for name in simfl.list_commands(None):
        assert re.search(rf"^  {name} +\w", shown, re.MULTILINE)
        assert call(name, "--help").exit_code == 0


def test_old_names_work_and_say_the_new_one(tmp_path):
    for words, name in {**INSIDE, ("serve", "client"): "client", ("serve", "calibrate"): "calibrate"}.items():
        old, new = call(name, "--help"), call(*words, "--help")
        assert old.exit_code == new.exit_code == 0
        assert f"simfl {name} is simfl {' '.join(words)} now" in old.stderr and not new.stderr
        assert old.stdout.split("\n\n", 1)[1] == new.stdout.split("\n\n", 1)[1]
        assert f"Usage: simfl {' '.join(words)} " in new.stdout and " ".join(words) in call("--help").stdout
    (tmp_path / "rm").mkdir()
    assert "no results" in call("ls", tmp_path / "rm").stderr


def test_a_plugin_can_be_listed_alone_and_shared_fields_stand_once():
    family, alone = call("list", "selection").stdout, call("list", "selection", "oort").stdout
    assert family.count("required): clients in an aggregation\n") == 1 and "  oort" in alone and "  random" not in alone
    assert "k (integer" in alone and "penalty" in alone
    refused = call("list", "selection", "oorrt")
    assert refused.exit_code == 2 and "did you mean 'oort'?" in refused.stderr


@pytest.mark.parametrize(
    "words", ["runn", "run", "validate", "run x.yaml --ressume", "list selektion", "run --verify none"]
)
def test_wrong_usage_is_2(words):
    result = call(*words.split())
    assert result.exit_code == 2 and not result.stdout and result.stderr


# -- validate, show, schema, list --------------------------------------------------------------------


def test_validate_reports_every_file(good, bad):
    result = call("validate", good, bad)
    assert result.exit_code == 2
    assert result.stdout == f"{good}: valid, digest {Scenario.load(good).digest}\n{good}: note: {NOTE}\n"
    assert result.stderr.splitlines() == [
        f"{bad}:6:27: selection.kk: unknown key 'kk' of selection 'random'; did you mean 'k'?",
        f"{bad}:7:34: training.rounds: Input should be greater than or equal to 1 (got 0); "
        "the nearest valid value is 1",
    ]
    assert call("validate", good).exit_code == 0
    assert call("validate", good.parent / "none.yaml").exit_code == 2


def test_validate_as_json(good, bad):
    result = call("validate", "--json", good, bad)
    first, second = json.loads(result.stdout)
    assert result.exit_code == 2 and not result.stderr
    nothing = {"problems": [], "missing": [], "unchecked": [], "cautions": [NOTE]}
    assert first == {"file": str(good), "valid": True, "digest": Scenario.load(good).digest} | nothing
    assert second["digest"] is None and [problem["line"] for problem in second["problems"]] == [6, 7]
    assert second["problems"][0] == {
        "source": str(bad),
        "line": 6,
        "column": 27,
        "key": "selection.kk",
        "message": "unknown key 'kk' of selection 'random'; did you mean 'k'?",
    }


def test_show_prints_a_scenario_again(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("show", "good.yaml", "seed=3", "selection=batch_partition:T=2")
    assert result.exit_code == 0
    (tmp_path / "again.yaml").write_text(result.stdout)
    again = Scenario.load(tmp_path / "again.yaml")
    assert again == Scenario.load(good, ["seed=3", "selection=batch_partition:T=2"]) and again.seed == 3
    assert json.loads(call("show", "--json", "again.yaml").stdout) == again.plain()
    assert call("show", "-", "name=good", input=good.read_text()).stdout == call("show", good).stdout


def test_an_unknown_override_is_2_with_a_suggestion(good):
    for command in ("run", "show"):
        result = call(command, good, "training.roundz=5")
        assert result.exit_code == 2 and not result.stdout
        assert result.stderr.startswith("override training.roundz=5: training.roundz: unknown key 'roundz'")
        assert result.stderr.endswith("did you mean 'rounds'?\n")


def test_stdin_is_bounded_and_must_be_text():
    assert "stdin: the file is larger than" in call("show", "-", input=b"#" * 1_000_001).stderr
    assert call("show", "-", input=b"\xff").exit_code == 2


def test_schema_is_json():
    assert json.loads(call("show", "schema").stdout)["title"] == "simfl scenario"


def test_list_shows_families_plugins_and_keys():
    everything, one = call("list"), call("list", "selection").stdout
    lines = {line.partition(":")[0]: line for line in everything.stdout.splitlines()}
    assert "batch_partition" in lines["selection"] and "log_normal" in lines["distribution"]
    assert "quickstart" in lines["scenarios"] and "clients in an aggregation" not in everything.stdout
    assert "simfl list selection" in everything.stderr
    assert "k (integer >= 1; required): clients in an aggregation" in one and "dropout" not in one
    found = json.loads(call("list", "selection", "--json").stdout)
    assert list(found) == ["selection"]
    assert found["selection"]["random"]["fields"] == [
        {"name": "k", "type": "integer >= 1", "required": True, "description": "clients in an aggregation"}
    ]
    fedavg = {
        field["name"]: field for field in json.loads(call("list", "--json").stdout)["training"]["fedavg"]["fields"]
    }
    assert fedavg["batch_size"]["default"] == 32 and fedavg["weighting"]["type"] == "samples | equal"
    assert "did you mean 'selection'?" in call("list", "selektion").stderr


def test_no_color_is_heeded(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in call("list", "selection", color=True).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in call("list", "selection", color=True).stdout


# -- doctor ------------------------------------------------------------------------------------------


def test_doctor_names_versions_and_what_is_missing(monkeypatch):
    from simfl.cli import doctor

    monkeypatch.setattr(doctor, "requires", lambda name: ["numpy>=2.0", "torch<0.1", 'nowhere>=3; extra == "dp"'])
    monkeypatch.setattr(doctor, "_imports", lambda name: "ok")
    result = call("doctor", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 5, "torch is too new for the made-up bound"
    numpy, torch = found["packages"]
    assert numpy["ok"] and numpy["version"] and numpy["wanted"] == ">=2.0"
    assert not torch["ok"]
    assert found["simfl"] == __version__ and found["threads"]["cores"] == os.cpu_count()
    shown = call("doctor").stdout
    assert 'extra dp: missing nowhere; pip install "simfl[dp]"' in shown and "(wanted <0.1)" in shown

    monkeypatch.setattr(doctor, "requires", lambda name: ["numpy>=2.0"])
    assert call("doctor").exit_code == 0
    monkeypatch.setattr(doctor, "_imports", lambda name: "RuntimeError: broken")
    assert call("doctor").exit_code == 5


def test_doctor_says_why_an_import_fails():
    from simfl.cli.doctor import _imports

    assert _imports("json") == "ok"
    assert _imports("no_such_module").startswith("ModuleNotFoundError: ")


def test_doctor_says_where_only_simfls_import_of_torchvision_works(monkeypatch):
    from simfl.cli import doctor

    def of(name):
        if name == "torchvision":
            raise RuntimeError("operator torchvision::nms does not exist")
        return import_module(name)

    monkeypatch.setattr(doctor, "import_module", of)
    monkeypatch.setattr("simfl.learning.torchvision_import.torchvision", lambda: None)
    said = doctor._imports("torchvision")
    assert said.startswith("ok as simfl.plugins.learning.torchvision()") and "nms does not exist" in said

    def broken():
        raise MissingError("torchvision cannot be imported")

    monkeypatch.setattr("simfl.learning.torchvision_import.torchvision", broken)
    assert doctor._imports("torchvision") == "RuntimeError: operator torchvision::nms does not exist"


# -- words that are nearly right -----------------------------------------------------------------------


def test_a_mistyped_command_is_named():
    result = call("runn", "quickstart")
    assert result.exit_code == 2 and "No such command 'runn'. Did you mean 'run'?" in result.stderr
    assert "Did you mean" not in call("zzzzzz").stderr


@pytest.mark.parametrize(
    ("word", "known", "near"),
    [
        ("resnet18", ["resnet8", "resnet18_gn", "resnet18_bn"], "resnet18_gn"),
        ("resnet9", ["resnet8", "resnet18_gn"], None),
        ("k", ["kind", "T"], None),
        ("half", ["partition", "half_partition"], "half_partition"),
    ],
)
def test_words_that_begin_alike_are_nearer_than_words_of_like_letters(word, known, near):
    assert nearest(word, known) == near


def test_a_run_without_any_time_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "name: t\nclients: 4\nselection: {name: random, k: 2}\nlearning: none\ntraining: {name: fedavg, rounds: 2}\n"
    Path("t.yaml").write_text(text)
    note = "nothing takes time, so that time_s is 0 but for skipped rounds"
    assert note in call("run", "t.yaml").stderr and note in call("validate", "t.yaml").stdout
    for some in (
        "network.latency_s=0.1",
        "devices.computation=0.1",
        "network={name: star, bandwidth_bytes_per_s: 1000}",
        "training={name: fedbuff, rounds: 2, concurrency: 2, buffer: 2}",
    ):
        assert note not in call("validate", "t.yaml", some).stdout


def test_a_run_of_skipped_rounds_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "name: t\nclients: 4\nselection: {name: random, k: 2}\nlearning: none\ntraining: {name: fedavg, rounds: 2}\n"
    Path("t.yaml").write_text(text + "devices: {availability: {name: bernoulli, dropout: [1, 1, 1, 1]}}\n")
    assert "every round was skipped" in call("run", "t.yaml").stderr
    assert "every round was skipped" not in call("run", "t.yaml", "devices.availability.dropout=0").stderr
    failing = ("secagg=secagg", "devices.availability.dropout=0", "devices.failure=bernoulli:probability=1")
    assert "in 2 the protocol failed: upload: 0 clients" in call("run", "t.yaml", *failing).stderr


def test_a_target_that_was_not_reached_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(
        "clients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 2}\n"
        "learning: {data: digits, partition: iid, model: logistic, evaluate: {every: 1}}\n"
    )
    missed = "the target accuracy 0.99 was not reached in 2 rounds"
    assert missed in call("run", "t.yaml", "training.stop.target_accuracy=0.99").stderr
    assert "target" not in call("run", "t.yaml", "training.stop.target_accuracy=0.01").stderr


def test_sums_without_room_are_refused_before_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(
        "clients: 30\nselection: {name: random, k: 30}\ntraining: {name: fedavg, rounds: 2}\nsecagg: secagg\n"
        "learning: {data: digits, partition: {name: bootstrap, samples: 60000}, model: logistic}\n"
    )
    for command in (("run",), ("validate", "--deep")):
        refused = call(*command, "t.yaml", "secagg.clip=4000")
        assert refused.exit_code == 2 and "no room in the field; the largest is 1192" in refused.output
    assert call("validate", "--deep", "t.yaml", "secagg.clip=1192").exit_code == 0


def test_validate_takes_overrides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "name: t\nclients: 4\nselection: {name: random, k: 2}\nlearning: none\ntraining: {name: fedavg, rounds: 2}\n"
    for name in ("a.yaml", "b=c.yaml"):
        Path(name).write_text(text)
    right = call("validate", "a.yaml", "b=c.yaml", "selection.k=3")
    assert right.exit_code == 0 and right.stdout.count("valid, digest") == 2
    wrong = call("validate", "a.yaml", "selection.k=9")
    assert wrong.exit_code == 2 and "override selection.k=9" in wrong.stderr
    assert "Missing argument" in call("validate", "selection.k=3").stderr
    assert call("validate", "a.yaml", f"name={'a' * 400}").exit_code == 2


# -- run ---------------------------------------------------------------------------------------------


def test_run_prints_a_summary_and_where_the_results_are(good, tmp_path):
    out = tmp_path / "results"
    digest = Scenario.load(good).digest
    result = call("run", good, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"{out}/good/{digest}  digest {digest}"
    assert "3 rounds, 0 of them skipped; -v prints all" in result.stdout
    assert result.stderr == f"{good}: note: {NOTE}\n", "no progress bar where nobody watches"

    values = call("run", good, "--out", out, "-v").stdout
    assert re.search(r"^rounds +3$", values, re.MULTILINE) and "guarantee_weak" in values
    printed = len(re.findall(r"^\w+ {2,}\S", values, re.MULTILINE))
    assert f"-v prints all {printed} values\n" in result.stdout

    again = call("run", good, "--out", out, "-q")
    assert again.stdout == f"{out}/good/{digest}\n" and "--force" in again.stderr

    summary = json.loads(call("run", good, "--out", out, "--json", "--force").stdout)
    assert summary["rounds"] == 3 and summary["path"] == f"{out}/good/{digest}"
    assert summary["digest"] == digest and summary["reused"] is False


@pytest.mark.parametrize(("changes", "quality"), [([], "test_accuracy"), (["learning=none"], None)])
def test_six_numbers_after_a_run_each_with_unit_meaning_and_basis(changes, quality, tmp_path):
    words = ("run", "quickstart", *changes, "training.rounds=2", "--out", tmp_path)
    summary = json.loads(call(*words, "--json").stdout)
    lines = call(*words).stdout.splitlines()
    shown = {line.split()[0]: line.split(maxsplit=2) for line in lines if line.split()[0] in summary}
    wanted = ["time_s", quality, "mean_cardinality", "fairness_gap", "privacy_weak_lower", "bytes_up"]
    assert list(shown) == [name for name in wanted if name]
    assert shown["bytes_up"][2].startswith("MB ") and shown["time_s"][2].startswith("s ")
    assert float(shown["bytes_up"][1]) == pytest.approx(summary["bytes_up"] / 1e6, rel=1e-3)
    assert all(each[2].endswith(".") for each in shown.values())
    assert any(line.startswith("privacy_weak_lower: against the server") for line in lines), "never without its basis"


def test_run_and_its_results_stay_inside_the_results_root(good, tmp_path):
    before = set(tmp_path.rglob("*"))
    for name in ("../../escape", "/tmp/escape", ".."):
        assert call("run", good, f"name={name}", "--out", tmp_path / "results").exit_code == 2
    assert set(tmp_path.rglob("*")) == before


def test_verify_compares_a_rerun(good, tmp_path):
    folder = Path(call("run", good, "--out", tmp_path, "-q").stdout.strip())
    result = call("run", "--verify", folder)
    assert result.exit_code == 0 and result.stdout.splitlines()[-1] == f"{folder}: verified"
    assert "rounds.csv: identical" in result.stdout
    found = json.loads(call("run", "--verify", folder, "--json").stdout)
    assert found["identical"] and all(found["tables"].values()) and found["directory"] == str(folder)

    (folder / "rounds.csv").write_text("damaged")
    assert call("run", "--verify", folder).exit_code == 4
    assert call("run", "--verify", tmp_path).exit_code == 2
    assert call("run", "--verify", tmp_path / "nowhere").exit_code == 2


@pytest.mark.parametrize(("tables", "code"), [({"a": True, "b": False}, 4), ({}, 4), ({"a": True}, 0)])
def test_verify_fails_on_any_difference_and_on_nothing_to_compare(tmp_path, monkeypatch, tables, code):
    monkeypatch.setattr("simfl.runs.run.verify", lambda folder, trust_plugins: tables)
    monkeypatch.setattr("simfl.runs.run.changed_inputs", lambda folder, trust_plugins: [])
    assert call("run", "--verify", tmp_path).exit_code == code


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ScenarioError("selection.k", "cannot be"), 2, "good.yaml:6:30: selection.k: cannot be\n"),
        (IntegrityError("x: damaged"), 4, "x: damaged\n"),
        (MissingError("this needs the 'dp' extra"), 5, "this needs the 'dp' extra\n"),
        (OSError(errno.ENOSPC, "No space left on device", "rounds.csv"), 6, "rounds.csv: No space left on device\n"),
        (PermissionError(errno.EACCES, "Permission denied", "results"), 2, "results: Permission denied\n"),
        (MemoryError(), 6, "out of memory\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_failures_are_one_line_and_a_code(good, monkeypatch, error, code, message):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr("simfl.runs.tracking.tracked_run.run", fail)
    result = call("run", good)
    assert result.exit_code == code and result.stderr.endswith(message) and result.stderr.count("\n") == 1
    assert not result.stdout


def test_a_bug_is_1_with_the_traceback_in_a_file(good, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("simfl.runs.tracking.tracked_run.run", lambda *args, **options: 1 / 0)
    result = call("run", good)
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("internal error (ZeroDivisionError: division by zero); please report it")
    log = Path(result.stderr.split()[-1])
    assert log.parent == tmp_path and "Traceback" in log.read_text()
    debug = call("--debug", "run", good)
    assert debug.exit_code == 1 and "Traceback" in debug.stderr


def test_the_run_gets_what_the_user_asked_for(good, monkeypatch, tmp_path):
    asked = {}

    def fake(scenario, out, **options):
        asked.update(scenario=scenario, out=out, **options)
        raise MissingError("enough")

    monkeypatch.setattr("simfl.runs.tracking.tracked_run.run", fake)
    call("run", good, "seed=7", "--out", "elsewhere", "--resume", "--force", "--timeline", "t.json")
    assert asked.pop("scenario") == Scenario.load(good, ["seed=7"])
    assert asked == {
        "out": Path("elsewhere"), "force": True, "timeline": Path("t.json"), "progress": None, "phase": None,
        "on_round": None, "notes": Notes(), "extendable": True, "goes_on": None,
    }  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_run_says_how_to_go_on(good, tmp_path, number, code):
    words = ["run", "good.yaml", "name=a-b", "training.rounds=20000", "--out", "my results"]
    process = subprocess.Popen(
        [sys.executable, "-m", "simfl", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(600):
            if list(tmp_path.glob("my results/a-b/*/checkpoint/*")):
                break
            time.sleep(0.1)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code, errors
    assert not output and "Traceback" not in errors
    resume = next(line for line in errors.splitlines() if line.startswith("to continue: ")).removeprefix(
        "to continue: "
    )
    assert shlex.split(resume) == ["simfl", *words]


def test_a_closed_pipe_is_no_internal_error(tmp_path):
    command = f"{shlex.quote(sys.executable)} -m simfl show schema | head -c 10"
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HOME)},
        capture_output=True,
        text=True,
    )
    assert "internal error" not in result.stderr and "Traceback" not in result.stderr


def test_an_override_with_dashes_is_told_its_form(good):
    result = call("run", good, "--learning-rate", "3")
    assert (
        result.exit_code == 2
        and "Keys of a scenario are set without dashes: training.learning_rate=VALUE" in result.output
    )
    assert "Keys of a scenario" not in call("list", "--seed", "3").output
