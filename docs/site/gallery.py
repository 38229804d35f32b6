"""The gallery: a small run of every shipped scenario, with a figure of it."""

import tempfile
from pathlib import Path

from simfl.api.functions import run
from simfl.report import draw

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"

DIGITS = ("learning={data: digits, model: mlp, partition: {name: dirichlet, beta: 0.5}}",)
SMALL: dict[str, tuple[str, tuple[str, ...]]] = {
    "quickstart": ("accuracy_time", ("training.rounds=30",)),
    "million_clients": ("cardinality", ("clients=20000", "training.rounds=10")),
    "million_learning": ("accuracy_time", ("clients=20000", "selection.k=100", "training.rounds=10")),
    "cities": ("latency", ("training.rounds=3",)),
    "fedbuff": ("staleness", ("training.rounds=40",)),
    "fedbuff_scale": ("concurrency", ("clients=2000", "training.concurrency=200", "training.buffer=20",
                                      "training.lookahead=200", "training.rounds=50")),
    "fedbuff_mnist": ("accuracy_time", ("clients=40", "training.concurrency=20", "training.rounds=20", *DIGITS)),
    "fedbuff_privacy": ("privacy", ("training.rounds=60",)),
    "fedltn": ("clients", ("training.rounds=15", "learning.data=digits", "learning.model={name: mlp, hidden: [64]}",
                           "learning.holdout={validation: 0.3, test: 0.3}")),
    "masked_averaging": ("labels", ("clients=20", "training.rounds=5", *DIGITS)),
    "oblivious": ("loss", ("clients=10", "training.rounds=5", "secagg.epsilon=1",
                           "learning={data: digits, model: logistic, partition: iid}")),
    "paper001_privacy": ("privacy", ("training.rounds=130",)),
    "paper001_mnist": ("participation", ("training.rounds=100", "learning=none")),
    "paper001_cifar10": ("cardinality", ("training.rounds=100", "learning=none")),
    "paper001_mnist_authors": ("participation", ("training.rounds=100", "learning=none")),
    "paper001_cifar10_authors": ("cardinality", ("training.rounds=100", "learning=none")),
    "paper001_convergence": ("loss", ("training.rounds=60", "learning.evaluate=5")),
    "paper003_fedbuff": ("staleness", ("training.rounds=30", *DIGITS)),
    "privacyfl": ("accuracy_time", ()),
    "privacyfl_kdd": ("accuracy_time", ("learning.data=privacyfl_digits", "learning.model=logistic", "clients=4")),
    "privacyfl_serverless": ("accuracy_time", ()),
    "paper003_basecagg": ("staleness", ("training.rounds=30", *DIGITS)),
    "privacyfl_latency": ("timeline", ("trace=events",)),
    "compression": ("accuracy_time", ("clients=40", "training.rounds=20", *DIGITS)),
    "quorum": ("participation", ("training.rounds=20",)),
    "guarded": ("privacy", ("clients=60", "training.rounds=40", "privacy.every=1", *DIGITS)),
    "selection": ("accuracy_time", ("clients=60", "training.rounds=20", *DIGITS)),
    "dp_tradeoff": ("plugins", ("clients=40", "selection.k=16", "training.rounds=10")),
    "text": ("accuracy_time", ("training.rounds=15",)),
    "secure_async": ("privacy", ("training.rounds=30",)),
}  # fmt: skip
"""For each scenario the figure that is drawn, and what makes it small and free of data that are not there."""

HEAD = """# Gallery

*Generated: every shipped scenario is run here with the overrides of the command below it, which make it small and
independent of data sets that have to be downloaded. The figures show what a scenario is about, not its published
numbers.*
"""


def write(folder: Path) -> None:
    """Runs the scenarios; writes ``gallery.md`` and its figures into a folder.

    Raises:
        KeyError: a scenario has no place in the gallery.
    """
    parts = [HEAD]
    with tempfile.TemporaryDirectory() as out:
        for path in sorted(SCENARIOS.glob("*.yaml")):
            name, (figure, changes) = path.stem, SMALL[path.stem]
            result = run(path, changes, out=out)
            fig, _ = draw(figure, result.path)
            fig.savefig(folder / f"gallery-{name}.svg")
            words = " ".join(f"'{change}'" if " " in change else change for change in changes)
            parts += [
                f"## {name}\n\n{_about(path.read_text())}\n",
                f"```bash\nsimfl run scenarios/{name}.yaml {words}\n```\n",
                f"![{figure} of {name}](gallery-{name}.svg)\n",
                f"```yaml\n{path.read_text().strip()}\n```\n",
            ]
    (folder / "gallery.md").write_text("\n".join(parts))


def _about(text: str) -> str:
    """The scenario's first comment."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# yaml-language-server"):
            lines.append(line.lstrip("# "))
    return " ".join(lines)
