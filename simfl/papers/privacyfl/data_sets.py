"""Data of PrivacyFL: connections of a network, normal or an attack; and the digits, scaled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from simfl.plugins import MissingError, ScenarioView, Streams
from simfl.plugins.data import Root, broken, data_places, data_root, load_cached, read_csv, read_digits, unit_rows
from simfl.plugins.learning import DATA, Dataset, Outline

NAMES = ("kddcup.data_10_percent.gz", "kddcup.data_10_percent")
COLUMNS = 42
TEXTS = ("1", "2", "3")
LABEL = "41"
LAST = 300  # of the digits, for the test
RARE = (
    "buffer_overflow", "ftp_write", "guess_passwd", "imap", "loadmodule", "multihop", "perl", "phf", "rootkit", "spy",
    "warezclient", "warezmaster",
)  # fmt: skip
"""Attacks of the kinds user-to-root and remote-to-local."""


@DATA("kddcup99")
@dataclass(frozen=True)
class KddCup:
    """KDD Cup 1999, the 10 % file: 494,021 connections, normal or an attack; 118 features, rows of norm 1.

    ``rare`` keeps only normal connections and the 1,178 attacks that gain access (1.2 % of what is left): data as
    unbalanced as fraud. Reference: Hettich and Bay, The UCI KDD Archive, 1999.
    """

    root: Root = None
    attacks: Annotated[Literal["all", "rare"], Field(description="which attacks are kept")] = "all"
    rows: Annotated[
        int | None, Field(ge=10, description="a random sample of so many connections; null = all that are kept")
    ] = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the rows kept for the test")] = 0.25

    def outline(self, setting: ScenarioView) -> None:
        self._path(setting)

    def _path(self, setting: ScenarioView) -> Path:
        root = setting.file(self.root) if self.root else data_root()
        for folder in (Path(root), Path(root) / "kddcup99") if root else ():
            for name in NAMES:
                if (folder / name).is_file():
                    return folder / name
        raise MissingError(
            f"learning.data: no {NAMES[0]} in {root if self.root else data_places()}; "
            "get it from https://archive.ics.uci.edu/dataset/130/kdd+cup+1999+data and name its folder in "
            "learning.data.root"
        )

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        path = self._path(setting)
        arrays = load_cached("kddcup99 v1", [path], lambda: _decode(path))
        x, y = arrays["x"], arrays["attack"].astype(np.int64)
        used = np.flatnonzero(arrays["rare"] | ~arrays["attack"]) if self.attacks == "rare" else np.arange(len(y))
        order = used[streams("split").permutation(len(used))][: self.rows]
        cut = round(len(order) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        return Dataset(x[train], y[train], x[test], y[test], ("normal", "attack"))


def _decode(path: Path) -> dict[str, Any]:
    table = read_csv(path, header=None)
    if table.shape[1] != COLUMNS or table.isna().any(axis=None):
        raise broken(path, f"is no table of {COLUMNS} columns without gaps")
    label = table[LABEL].astype(str).str.rstrip(".").to_numpy(dtype=str)
    x = _features(table.drop(columns=LABEL), path)
    return {"x": x, "attack": label != "normal", "rare": np.isin(label, RARE)}


def _features(table: Any, path: Path) -> Any:
    import pandas

    numbers = table.drop(columns=list(TEXTS))
    if any(kind not in "iuf" for kind in (dtype.kind for dtype in numbers.dtypes)) or (numbers < 0).any(axis=None):
        raise broken(path, "has something else than numbers of 0 or more beside columns 1 to 3")
    return unit_rows(pandas.get_dummies(table, columns=list(TEXTS), dtype=np.float32).to_numpy(dtype=np.float32))


@DATA("privacyfl_digits")
@dataclass(frozen=True)
class PrivacyFLDigits:
    """The built-in digits with features between 0 and 1, the last 300 of them for the test (Mugunthan, MIT 2022)."""

    def outline(self, setting: ScenarioView) -> Outline:
        return Outline((64,), 10)

    by_seed = False

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        pixels, labels = read_digits()
        least, span = pixels.min(axis=0), np.ptp(pixels, axis=0)
        x = ((pixels - least) / np.where(span > 0, span, 1)).astype(np.float32)
        return Dataset(x[:-LAST], labels[:-LAST], x[-LAST:], labels[-LAST:], tuple("0123456789"))
