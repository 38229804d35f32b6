"""What runs that lie beside one another are called: in words, by what differs between them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from simfl.core.json_data import JsonObject
from simfl.report.axes import JOINT, labels, varying


def name_runs(paths: Sequence[Path], scenarios: Mapping[Path, JsonObject]) -> list[str]:
    """A name for each run: its scenario's if there are several, what differs between runs of one scenario, its seed.

    The digest is added where that leaves two runs with one name; it stands alone where nothing is known.

    Args:
        paths: the runs' folders, named by their digests.
        scenarios: their resolved scenarios, as far as they are known.
    """
    by_name: dict[str, list[Path]] = {}
    for path in paths:
        if path in scenarios:
            by_name.setdefault(str(scenarios[path].get("name", "")), []).append(path)
    names: dict[Path, str] = {}
    for name, its in by_name.items():
        words = labels(*varying([scenarios[path] for path in its]))
        for path, differs in zip(its, words, strict=True):
            seed = scenarios[path].get("seed")
            parts = (name if len(by_name) > 1 else "", differs, "" if seed is None else f"seed {seed}")
            names[path] = JOINT.join(filter(None, parts))
    named = Counter(names.values())
    unique = {path: name if named[name] == 1 else f"{name} ({path.name})".strip() for path, name in names.items()}
    return [unique.get(path) or path.name for path in paths]
