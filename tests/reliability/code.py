"""Bar 6: data are never code, and nobody is called or listened to unasked."""

import ast
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import numpy as np

from simfl.core.storage.disk import sha256 as digest
from simfl.runs.run import run
from simfl.scenario import Scenario
from tests.reliability.check import Case, Check, NotMeasured, Outcome, Plan, when
from tests.reliability.tested import tested
from tests.whole.test_architecture import MODULES, running, tree

HERE = Path(__file__).resolve().parent.parent.parent
AUDITED = """
import sys
WATCHED = %r
def told(event, arguments):
    if event in WATCHED:
        print("AUDIT:", event, str(arguments)[:200], file=sys.stderr, flush=True)
sys.addaudithook(told)
from simfl.cli import main
main()
"""
NETWORK = (
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "urllib.Request",
)
WORLD = "clients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 4}\nlearning: none\n"
DATA = WORLD.replace("learning: none", "learning: {data: {name: npz, path: evil.npz}, model: logistic}")


class _Evil:
    """Whoever unpickles it makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("CANARY",)


def _pickled() -> bytes:
    return pickle.dumps(_Evil(), protocol=4)


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([_Evil()], dtype=object), allow_pickle=True)
    return file.getvalue()


def _npz(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.npy", _npy())
    return file.getvalue()


class _Stop(Exception):
    pass


def _interrupted(folder: Path) -> Path:
    """The folder of a run that was stopped after its third round."""

    def stop(done: int, rounds: int, time_s: float) -> None:
        if done == 3:
            raise _Stop

    (folder / "s.yaml").write_text(WORLD)
    scenario = Scenario.load(folder / "s.yaml")
    try:
        run(scenario, folder / "results", progress=stop)
    except _Stop:
        pass
    return folder / "results" / scenario.name / scenario.digest


def _checkpoints(folder: Path, data: bytes) -> list[str]:
    for path in (_interrupted(folder) / "checkpoint").iterdir():
        path.write_bytes(data)
    return ["run", "s.yaml"]


def _model(folder: Path) -> list[str]:
    """A finished run whose model is a pickle, with a summary that says that this is so."""
    from tests.support.damages import reseal

    (folder / "s.yaml").write_text(WORLD.replace("learning: none", "learning: {data: digits, model: logistic}"))
    done = run(Scenario.load(folder / "s.yaml"), folder / "results")
    (done.path / "model.npy").write_bytes(_npy())
    reseal(done.path)
    return ["run", "--verify", str(done.path)]


def _brought(folder: Path) -> list[str]:
    """A finished run whose scenario names a plugin file beside it, with a summary that says that this is so."""
    from tests.support.damages import reseal

    (folder / "s.yaml").write_text(WORLD)
    done = run(Scenario.load(folder / "s.yaml"), folder / "results")
    (done.path / "evil.py").write_text("import os\nos.mkdir('CANARY')\n")
    scenario = (done.path / "scenario.yaml").read_text()
    assert "plugins: []\n" in scenario
    (done.path / "scenario.yaml").write_text(scenario.replace("plugins: []\n", "plugins: [evil.py]\n"))
    reseal(done.path)
    return ["run", "--verify", str(done.path)]


def _cache(folder: Path) -> list[str]:
    """An entry of the cache whose arrays are pickles, with their digests."""
    rng = np.random.default_rng(0)
    arrays = {f"x_{part}": rng.normal(size=(8, 2)).astype("f4") for part in ("train", "test")}
    np.savez(folder / "evil.npz", **arrays, y_train=np.arange(8) % 2, y_test=np.arange(8) % 2)
    (folder / "s.yaml").write_text(DATA)
    _simfl(folder, "run", "s.yaml", "--out", "first")
    for complete in (folder / "cache").glob("*/complete"):
        document = json.loads(complete.read_text())
        for path in complete.parent.glob("*.npy"):
            path.write_bytes(_npy())
            document[path.stem] = digest(path)
        complete.write_text(json.dumps(document))
    return ["run", "s.yaml", "--out", "again"]


def _written(folder: Path, words: list[str], **files: bytes | str) -> list[str]:
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return words


NAMES = ("x_train", "y_train", "x_test", "y_test")
CANARIES = {
    "data: pickled arrays": lambda at: _written(at, ["run", "s.yaml"], s_yaml=DATA, evil_npz=_npz(*NAMES)),
    "data: a pickle": lambda at: _written(at, ["run", "s.yaml"], s_yaml=DATA, evil_npz=_pickled()),
    "data: a pickle as CSV": lambda at: _written(at, ["run", "s.yaml"], evil_csv=_pickled(), s_yaml=DATA.replace(
        "{name: npz, path: evil.npz}", "{name: csv, path: evil.csv, label: y}")),
    "audit: a pickled array": lambda at: _written(at, ["audit", "evil.npy"], evil_npy=_npy()),
    "audit: pickled arrays": lambda at: _written(at, ["audit", "evil.npz"], evil_npz=_npz("a")),
    "audit: a sparse matrix of pickles": lambda at: _written(
        at, ["audit", "evil.npz"], evil_npz=_npz("format", "shape", "data", "indices", "indptr")),
    "audit: torch's file": lambda at: _written(at, ["audit", "evil.pt"], evil_pt=_pickled()),
    "checkpoint: a pickle": lambda at: _checkpoints(at, _pickled()),
    "checkpoint: pickled arrays under their digest": lambda at: _checkpoints(
        at, sha256(_npz("state/model", "marks")).hexdigest().encode() + b"\n" + _npz("state/model", "marks")),
    "result: a pickled model": _model,
    "result: a plugin file": _brought,
    "cache: pickled arrays under their digests": _cache,
    "YAML: an object": lambda at: _written(
        at, ["run", "s.yaml"], s_yaml=WORLD + 'name: !!python/object/apply:os.mkdir ["CANARY"]'),
    "YAML: an expression": lambda at: _written(
        at, ["run", "s.yaml"], s_yaml=WORLD + "seed: __import__('os').mkdir('CANARY')"),
    "override: an expression": lambda at: _written(
        at, ["run", "s.yaml", "seed=__import__('os').mkdir('CANARY')"], s_yaml=WORLD),
    "YAML: a module as a plugin's name": lambda at: _written(
        at, ["run", "s.yaml"], s_yaml=WORLD.replace("name: random", "name: evil"),
        evil_py="import os\nos.mkdir('CANARY')"),
    "GraphML: a script": lambda at: _written(
        at, ["run", "s.yaml"], s_yaml=WORLD + "network: {name: file, path: g.graphml}",
        g_graphml='<?xml-stylesheet href="x"?><graphml><script>1</script></graphml>'),
}  # fmt: skip


def canaries(plan: Plan) -> Case:
    """A command that reads hostile data, in a process that tells what it unpickles and starts."""

    def case(number: int) -> Outcome:
        name = list(CANARIES)[number % len(CANARIES)]
        folder = plan.scratch / str(number)
        folder.mkdir()
        words = CANARIES[name](folder)
        code, said = _simfl(folder, *words, watched=("os.system", "os.exec", "os.posix_spawn"))
        wrong = when(any(folder.rglob("CANARY")), f"{name}: the canary ran")
        good = (0, 2, 4, 5) if name.startswith("cache") else (2, 4, 5)  # the data are decoded again
        wrong += when(code not in good or "Traceback" in said, f"{name}: exit {code}, {said[-200:]!r}")
        wrong += [f"{name}: {line}" for line in said.splitlines() if line.startswith("AUDIT:")]
        return Outcome(tuple(wrong))

    return case


def _simfl(folder: Path, *words: str, watched: tuple[str, ...] = ()) -> tuple[int, str]:
    about = os.environ | {"PYTHONPATH": str(HERE), "SIMFL_CACHE": str(folder / "cache"), "PYTHONSAFEPATH": "1"}
    done = subprocess.run([sys.executable, "-c", AUDITED % (watched,), *words], cwd=folder, env=about,
                          capture_output=True, text=True)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


COMMANDS = (
    ["validate", *sorted(path.stem for path in (HERE / "scenarios").glob("*.yaml"))],
    ["run", "quickstart", "training.rounds=2"],
    ["run", "--verify", "results/quickstart/*"],
    ["report", "results/quickstart/*", "-o", "report.html"],
    ["audit", "results/quickstart/*"],
    [
        "sweep",
        "fedbuff_scale",
        "clients=30",
        "selection.k=5",
        "training.buffer=5",
        "training.concurrency=10",
        "training.rounds=3",
        "seed=0,1",
        "--jobs",
        "1",
    ],
    ["theory", "quickstart"],
    ["list"],
    ["doctor"],
)


def _globbed(word: str, folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else [word]


def offline(plan: Plan) -> Case:
    """A command in a process that tells whom it calls and where it listens."""

    def case(number: int) -> Outcome:
        given = COMMANDS[number % len(COMMANDS)]
        words = [each for word in given for each in _globbed(word, plan.scratch)]
        code, said = _simfl(plan.scratch, *words, watched=NETWORK)
        wrong = when(code not in (0, 5), f"simfl {given[0]}: exit {code}: {said[-200:]}")
        return Outcome(
            (*wrong, *(f"simfl {given[0]}: {line}" for line in said.splitlines() if line.startswith("AUDIT:")))
        )

    return case


RULES = "S102,S301,S302,S307,S506,TID251,NPY002"
CODE = {"eval", "exec", "__import__", "import_module", "loads", "load"}
"""Calls that could make code of data."""

LOADERS = {"pickle", "torch", "yaml", "cloudpickle", "marshal", "joblib", "entry"}
KNOWN = {
    "simfl.core.registration.source_code: exec",  # files and modules that a user names, for that
    "simfl.experiments.sweep.plugin_pickling: pickle.loads",  # plugins of a script, to its own workers
    "simfl.experiments.sweep.plugin_pickling: pickle.load",  # objects of a sweep's own, by their SHA-256
    "simfl.deployment.forecasting.parts: pickle.loads",  # from the process that has started it, as the next
    "simfl.learning.backends.process_engine: pickle.loads",
    "simfl.learning.objects.handles: import_module",  # a module that a user names, for that
    "simfl.runs.tracking: import_module",  # of a tracker that a user names among those in a list
    "simfl.core.registration.packages: entry.load",  # installed entry points
    "simfl.cli: import_module", "simfl.cli.doctor: import_module", "simfl.scenario: import_module",
    "simfl.experiments.sweep.worker: import_module", "simfl.core.registration.registry: import_module",
    "simfl.core.registration.family_index: import_module", "simfl.core.coverage: import_module",
    "simfl.deployment.flower: import_module",  # of names in lists of their own
}  # fmt: skip


def source(plan: Plan) -> Case:
    """Ruff's rules, and a look at every call of a module of simfl."""
    modules = sorted(MODULES)

    def case(number: int) -> Outcome:
        if number == 0:
            ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", RULES,
                    "--output-format", "concise", "simfl"]  # fmt: skip
            found = subprocess.run(ruff, cwd=HERE, capture_output=True, text=True)
            if "No module named ruff" in found.stderr:
                raise NotMeasured("ruff is not installed")
            lines = [line for line in found.stdout.splitlines() if ".py:" in line]
            wrong = [line for line in lines if "registration/source_code.py" not in line or "S102" not in line]
            return Outcome(tuple(wrong))
        module = modules[number % len(modules)]
        wrong = []
        for node in running(tree(MODULES[module])):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                name = called.rpartition(".")[2]
                safe = name not in CODE or _safe(called, node)
                wrong += when(not safe and f"{module}: {called}" not in KNOWN, f"{module}:{node.lineno} calls {called}")
        return Outcome(tuple(wrong))

    return case


def _safe(called: str, node: ast.Call) -> bool:
    """JSON, a module that the source names, numpy without pickles, a function of simfl's own."""
    name = called.rpartition(".")[2]
    if called in ("json.loads", "json.load", "tomllib.load", "tomllib.loads"):
        return True
    if called.endswith("import_module"):
        return bool(node.args) and isinstance(node.args[0], ast.Constant)
    if called == "torch.load":  # tensors only
        return any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords)
    if called == "np.load":  # unpickles nothing unless it is told to
        return all(word.arg != "allow_pickle" or ast.unparse(word.value) == "False" for word in node.keywords)
    return called != name if name in ("eval", "exec", "__import__") else called.rpartition(".")[0] not in LOADERS


CHECKS = (
    Check(6, "canaries", "pickles, tags and expressions with a canary, as data, log, checkpoint, result, cache, "
          "override; refused, the canary never runs", "files", (1, len(CANARIES), len(CANARIES)), canaries),
    Check(6, "source", "ruff's rules on unpickling, eval and YAML, and every call that could make code of data; only "
          "plugins that a user names or installs", "modules", (len(MODULES),) * 3, source),
    Check(6, "offline", "commands in a process that reports connections, name look-ups and listening sockets; none",
          "commands", (0, 4, len(COMMANDS)), offline),
    tested(6, "listening", "watch and serve listen on loopback only, and elsewhere only when told so; Dask needs TLS",
           "report/test_watch.py::test_the_server_answers_this_machine_only",
           "remote/test_serving.py::test_the_command_refuses_other_addresses_and_weak_tokens",
           "experiments/test_sweep.py::test_a_scheduler_elsewhere_is_refused_without_tls",
           nightly=("experiments/test_sweep.py::test_dask_writes_the_same_index_and_listens_to_nobody_else",
                    "remote/test_serving.py")),
)  # fmt: skip
