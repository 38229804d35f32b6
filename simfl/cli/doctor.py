"""``simfl doctor``"""

import os
import platform
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from timeit import Timer, default_timer
from typing import TYPE_CHECKING

import click

from simfl.cli.shared import as_json, print_json
from simfl.core.json_data import JsonObject
from simfl.core.version import VERSION

if TYPE_CHECKING:
    from simfl.learning.backends.rates import EngineTimes

MISSING = 5
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@click.command("doctor", short_help="Show versions, extras and what is missing.")
@click.option("--rates", is_flag=True,
              help="Measure cryptography, as YAML to paste under secagg, and backends of training.")  # fmt: skip
@as_json
@click.pass_context
def command(context: click.Context, rates: bool, as_json: bool) -> None:
    """Show versions, what imports, threads, extras and the data folder; exit code 5 if something needed is missing.

    With --rates: seconds of a key agreement, an element of a mask, a product and a share on this machine, for the cost
    model of secure aggregation; and the time of each backend of training over that of the one that auto chooses. Runs
    take rates and backend from the scenario and never measure anything.
    """
    if rates:
        from simfl.learning.backends.rates import measure_engines

        measured, engines = measure_rates(), measure_engines(default_timer)
        if as_json:
            return print_json({"rates": measured, "engines": {name: t._asdict() for name, t in engines.items()}})
        click.echo("\n".join(["rates:", *(f"  {name}: {value:.2e}" for name, value in measured.items())]))
        return click.echo("\n".join([ENGINES, *(_engine_words(name, times) for name, times in engines.items())]))
    report = diagnose()
    if as_json:
        print_json(report)
    else:
        for section in ("simfl", "python", "machine", "processor", "threads", "data"):
            words = _processor_words if section == "processor" else _words
            click.echo(f"{section:12} {words(report[section])}")
        for package in report["packages"]:
            click.echo(f"{package['name']:12} {_state(package)}")
        for name, state in report["imports"].items():
            click.echo(f"import {name}: {state}")
        for plugin in report["broken_plugins"]:
            click.echo(f"plugin {plugin}")
        for line in report["broken_commands"]:
            click.echo(line)
        for name, packages in report["extras"].items():
            missing = [package["name"] for package in packages if not package["ok"]]
            hint = f'missing {", ".join(missing)}; pip install "simfl[{name}]"' if missing else "installed"
            click.echo(f"extra {name}: {hint}")
    context.exit(0 if report["ok"] else MISSING)


def diagnose() -> JsonObject:
    """Everything the command shows, as plain data."""
    import simfl.scenario.model  # noqa: F401  (registers every plugin)
    from simfl.cli import others
    from simfl.cli.package_commands import broken_commands
    from simfl.core.processor import processor
    from simfl.core.registration.family_index import broken
    from simfl.core.storage.data_folder import data_root
    from simfl.report import figures

    here, commands = processor(), broken_commands(others())
    lame = [f"{problem.group} {problem}" for problem in (*broken(), *figures.broken())]
    packages, extras = _requirements()
    imports = {name: _imports(name) for name in ("torch", "torchvision", "cryptography")}
    complete = all(p["ok"] for p in packages) and all(state.startswith("ok") for state in imports.values())
    return {
        "ok": complete and not lame and not commands,
        "simfl": VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": {
            "instructions": here.widest,
            "torch_uses": _torch_capability(),
            "onednn_limit": here.limit,
            "bf16": here.bf16,
        },
        "threads": {"cores": os.cpu_count(), **{name: os.environ.get(name) for name in THREADS}},
        "data": str(data_root()) if data_root() else None,
        "packages": packages,
        "imports": imports,
        "extras": extras,
        "broken_plugins": lame,
        "broken_commands": commands,
    }


def _requirements() -> tuple[list[JsonObject], dict[str, list[JsonObject]]]:
    """What simfl's own metadata asks for: needed packages, and those of each extra."""
    try:
        wanted = requires("simfl") or []
    except PackageNotFoundError:
        return [{"name": "simfl", "version": None, "wanted": "installed with pip", "ok": False}], {}
    needed: list[JsonObject] = []
    extras: dict[str, list[JsonObject]] = {}
    for line in wanted:
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", line)
        (extras.setdefault(extra[1], []) if extra else needed).append(_package(line.partition(";")[0].strip()))
    return needed, extras


def _package(requirement: str) -> JsonObject:
    match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(.*)", requirement)
    name, bounds = (match[1], match[2]) if match else (requirement, "")
    try:
        installed: str | None = version(name)
    except PackageNotFoundError:
        installed = None
    return {
        "name": name,
        "version": installed,
        "wanted": bounds,
        "ok": installed is not None and _fits(installed, bounds),
    }


def _fits(installed: str, bounds: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:  # it comes with matplotlib, which is then reported as missing
        return True
    return SpecifierSet(bounds.strip("() ")).contains(installed, prereleases=True)


def _torch_capability() -> str | None:
    """The instructions that torch's own kernels were chosen for, None where torch cannot be asked."""
    try:
        return str(import_module("simfl.learning.torch_setup").instructions())
    except Exception:  # a broken installation may raise anything; "imports" says what
        return None


def _imports(name: str) -> str:
    """``ok``, or why the import fails; of torchvision also whether simfl's import, which mends it, succeeds."""
    helper = "simfl.learning.torchvision_import"
    problem = _import_error(lambda: import_module(name))
    if problem and name == "torchvision" and not _import_error(lambda: import_module(helper).torchvision()):
        return f"ok as simfl.plugins.learning.torchvision(); import torchvision alone fails ({problem})"
    return problem or ("ok" if name in sys.modules else "not imported")


def _import_error(imported: Callable[[], object]) -> str:
    """Why an import fails, empty where it does not."""
    try:
        imported()
    except Exception as error:  # a broken installation may raise anything
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return ""


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {'unset' if item is None else item}" for name, item in value.items())
    return "none (see SIMFL_DATA)" if value is None else str(value)


def _processor_words(report: JsonObject) -> str:
    bf16 = {True: "bfloat16 in hardware", False: "no bfloat16 instructions: bf16 is slower than float32"}
    parts = [
        f"{report['instructions'] or 'unknown instructions'}",
        f"torch uses {report['torch_uses'] or 'unknown'}",
        f"oneDNN {'uses what there is' if report['onednn_limit'] is None else 'at most ' + report['onednn_limit']}",
        bf16.get(report["bf16"], "bfloat16 unknown"),
    ]
    return ", ".join(parts)


ENGINES = "# backends of training on one thread here, time over that of auto, which this does not change:"


def _engine_words(model: str, times: "EngineTimes") -> str:
    """As a comment of YAML; other backends that were clearly faster are named."""
    others = ", ".join(f"{name} {ratio:.2f}" for name, ratio in times.ratios.items() if name != times.auto)
    quickest = min(times.ratios, key=lambda name: times.ratios[name])
    hint = f"; faster here: learning.backend: {quickest}" if times.ratios[quickest] < CLEARLY else ""
    return f"#   {model}: auto is {times.auto}; {others}{hint}"


CLEARLY = 0.95
"""A ratio above this may be chance."""


def _state(package: JsonObject) -> str:
    wanted = f" (wanted {package['wanted']})" if package["wanted"] else ""
    return f"{package['version'] or 'missing'}{'' if package['ok'] else wanted}"


REPEATS = 5
"""Measurements of each operation, of which the quickest counts: the others were disturbed."""

ELEMENTS, MASKS = 1 << 20, 8
"""Elements of a mask: more than fit into a processor's nearest caches, as updates do; masks added to one update."""

SURVIVORS, PIECE = 64, 1 << 14
"""A matrix product as decoding makes it: rows and terms; columns."""

CLIENTS, THRESHOLD = 100, 51
"""Holders of a secret's shares, and the shares that open it."""


def measure_rates(clock: Callable[[], float] = default_timer) -> dict[str, float]:
    """Seconds of each operation of :class:`~simfl.secagg.masked_protocol.CryptoRates` by a clock, to three digits."""
    import numpy as np

    from simfl.secagg.crypto import field, keys, shamir

    rng = np.random.default_rng(0)
    seed, other = rng.bytes(32), rng.bytes(32)
    public, mask = keys.public_key(other), np.zeros(ELEMENTS, dtype=np.int64)
    left, right = (rng.integers(0, field.Q, shape) for shape in ((SURVIVORS, SURVIVORS), (SURVIVORS, PIECE)))
    points = np.arange(1, CLIENTS + 1)
    shares = shamir.shares([seed], points, THRESHOLD, other)
    few = slice(THRESHOLD)

    def agreement() -> None:
        keys.forget()
        keys.derive(keys.agree(seed, public), b"pair")

    make = _seconds(lambda: shamir.shares([seed], points, THRESHOLD, other), clock) / CLIENTS
    use = _seconds(lambda: shamir.combine_shares(shares[few], points[few], THRESHOLD), clock) / THRESHOLD
    seconds_of = {
        "agreement_s": _seconds(agreement, clock),
        "element_s": _seconds(lambda: keys.sum_masked([mask], [seed] * MASKS, []), clock) / (MASKS * ELEMENTS),
        "product_s": _seconds(lambda: field.matmul(left, right), clock) / (SURVIVORS * SURVIVORS * PIECE),
        "share_s": (make + use) / 2,
    }
    return {name: float(f"{seconds:.2e}") for name, seconds in seconds_of.items()}


def _seconds(operation: Callable[[], object], clock: Callable[[], float]) -> float:
    """Of one operation, the quickest of several measurements of a fifth of a second or more each."""
    timer = Timer(operation, timer=clock)
    number, _ = timer.autorange()
    return min(timer.repeat(REPEATS, number)) / number
