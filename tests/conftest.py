"""What several test modules share: a small comparison and a single run, played once."""

import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.support import cheap_process
from tests.support.sizes import WHOLE_SEARCHES
from tests.support.slot_here import SlotHere

cheap_process.begin()
if os.environ.get(WHOLE_SEARCHES):
    os.environ.setdefault("PYTEST_TIMEOUT", "0")  # a whole search may take an hour; pytest-timeout reads it
# a machine that is busy for a second is no mistake of a test
hypothesis.settings.register_profile("suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("suite")

WORLD = """
name: sample
clients: 12
network: {name: star, latency_s: {name: log_normal, median: 0.1, sigma: 0.4}, bandwidth_bytes_per_s: 1.0e+6}
devices: {availability: {name: bernoulli, dropout: 0.2}, failure: {name: bernoulli, probability: 0.05}}
selection: {name: random, k: 4}
training: {name: fedavg, rounds: 14, batch_size: 20, learning_rate: 0.2}
learning: {data: digits, partition: {name: dirichlet, beta: 0.5}, model: mlp}
privacy: multi_round
trace: events
"""

CHOICES = ("random", "batch_partition:T=2", "partition")
SEEDS = (0, 1, 2)


def played(out, overrides):
    from simfl.runs.run import run
    from simfl.scenario import Scenario

    return run(Scenario.parse(WORLD, "sample", overrides), out).path


# Jobs that a shell starts in the background ignore Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    cheap_process.collected()


@pytest.fixture(scope="module")
def sweeps_here():
    """Sweeps, comparisons and searches of a module's tests execute their runs in this process.

    For tests of what they find; how worker processes start, die and hang is tested in ``tests/experiments/test_sweep``.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simfl.experiments.sweep.processes.Slot", SlotHere)
        yield


@pytest.fixture(scope="module")
def one_worker():
    """One worker process for all sweeps of a module's tests: a new interpreter, as always, but started once.

    For tests of what another process makes of a scenario and its plugins.
    """
    from simfl.experiments.sweep.worker_process import Slot

    class Kept(Slot):
        def close(self):
            pass

    slot = Kept()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simfl.experiments.sweep.processes.Slot", lambda time_limit_s: slot)
        yield
    Slot.close(slot)


@pytest.fixture
def no_plugins():
    """What plugin files register during the test is forgotten, and executed again where it is named again."""
    from simfl.core.errors import PLUGIN_FILE
    from simfl.core.registration.family_index import undone

    before = set(sys.modules)
    with undone():
        yield
    for name in [name for name in sys.modules if name.startswith(PLUGIN_FILE) and name not in before]:
        del sys.modules[name]


@pytest.fixture
def no_pictures(monkeypatch):
    """Pages whose figures are not drawn, for tests of their words: drawing is two thirds of a page's time."""
    monkeypatch.setattr("simfl.report.svg.picture", lambda fig, format: b'<svg viewBox="0 0 1 1"></svg>')


@pytest.fixture(scope="session")
def comparison(tmp_path_factory) -> Path:
    """A ``simfl compare`` of three policies over three seeds; its folder."""
    from simfl.experiments.compare.comparison import compare
    from simfl.experiments.sweep.execution import How
    from simfl.experiments.sweep.plan import plan_sweep
    from tests.support.swept_axes import axes

    out = tmp_path_factory.mktemp("results")
    file = out / "sample.yaml"
    file.write_text(WORLD)
    for choice in CHOICES:  # here, in this process: the comparison finds them done
        for seed in SEEDS:
            played(out, [f"seed={seed}", f"selection={choice}"])
    plan = plan_sweep(file, axes([f"selection={','.join(CHOICES)}"]), len(SEEDS))
    return compare(plan, out, How(jobs=1)).path


@pytest.fixture(scope="session")
def comparison_page(comparison) -> str:
    """The HTML report of that comparison, with its figures."""
    from simfl.report import read_study
    from simfl.report.html_page import page

    return page(read_study([comparison]))


@pytest.fixture(scope="session")
def single(comparison) -> Path:
    """The folder of one of its runs."""
    from simfl.report import read_study

    return read_study([comparison]).groups[0].first.path
