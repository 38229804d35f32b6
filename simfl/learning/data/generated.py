"""Data without files: scikit-learn's copy of the UCI handwritten digits (1,797 images of 8 x 8 pixels), texts whose
best possible prediction is known, and samples drawn from a known distribution.
"""

import gzip
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simfl.core.registration.protocol import SINCE_LATER
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.types import Integers
from simfl.learning.data.base import DATA, Dataset, Outline, SubsetField, subset
from simfl.learning.data.limits import check_values

Count = Annotated[int, Field(ge=2, le=10**7)]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@DATA("markov_text")
@dataclass(frozen=True)
class MarkovText:
    """Texts of Markov chains, one source each: windows of characters, whose next one is the class.

    Every character has a successor, which follows it with probability ``predictability``; else the next character is
    any of all, equally likely. All characters are equally frequent. Whoever knows a source's successors is right with
    probability predictability + (1 - predictability) / symbols, and nobody is more often. ``dialect`` is the share of
    the characters whose successor is the source's own. The partition ``natural`` gives each source to one client.
    """

    sources: Annotated[int | None, Field(ge=1, le=10**6, description="writers of texts; null = as many as clients")] = (
        None
    )
    symbols: Annotated[int, Field(ge=2, le=10_000, description="different characters")] = 12
    length: Annotated[int, Field(ge=1, le=10_000, description="characters of a sample")] = 16
    characters: Annotated[Count, Field(description="of each source's text for training")] = 200
    test_characters: Annotated[Count, Field(description="of each source's text for the test")] = 60
    predictability: Annotated[float, Field(ge=0, le=1, description="how often the successor comes next")] = 0.8
    dialect: Annotated[float, Field(ge=0, le=1, description="share of a source's own successors")] = 0.0

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        why = f"gives no sample of {self.length} characters and the next one; the nearest valid value is"
        sizes = {"characters": self.characters, "test_characters": self.test_characters}
        return [
            (key, f"is {size}, which {why} {self.length + 1}") for key, size in sizes.items() if size <= self.length
        ]

    @property
    def best_accuracy(self) -> float:
        """The highest expected accuracy that a source's own texts allow."""
        return self.predictability + (1 - self.predictability) / self.symbols

    def outline(self, setting: ScenarioView) -> Outline:
        samples = self._sources(setting) * (self.characters + self.test_characters - 2 * self.length)
        values = samples * (self.length + 1)
        check_values(2 * values, 0, f"{values:,} characters in all samples", "characters")
        return Outline((self.length,), self.symbols, tokens=True)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        self.outline(setting)
        sources = self._sources(setting)
        successors = self._successors(sources, streams("markov text sources"))
        (x_train, y_train), (x_test, y_test) = (
            self._windows(successors, length, streams("markov text", part))
            for part, length in enumerate((self.characters, self.test_characters))
        )
        names = LETTERS if self.symbols <= len(LETTERS) else [str(symbol) for symbol in range(self.symbols)]
        owners, test_owners = (np.repeat(np.arange(sources), len(y) // sources) for y in (y_train, y_test))
        return Dataset(
            x_train, y_train, x_test, y_test, tuple(names[: self.symbols]), {"client": owners}, {"client": test_owners}
        )

    def _sources(self, setting: ScenarioView) -> int:
        return setting.clients if self.sources is None else self.sources

    def _successors(self, sources: int, rng: np.random.Generator) -> Integers:
        """The successor of every character in every source's texts, (sources, symbols): a permutation each."""
        cycle = rng.permutation(self.symbols)
        common = np.empty_like(cycle)
        common[cycle] = np.roll(cycle, -1)
        table = np.tile(common, (sources, 1))
        for row in table if self.dialect else ():
            private = rng.permutation(self.symbols)[: round(self.dialect * self.symbols)]
            row[private] = row[np.roll(private, 1)]
        return table

    def _windows(self, successors: Integers, characters: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """All samples of texts of so many characters, source by source, and the character that follows each."""
        sources = np.arange(len(successors))
        text = rng.integers(self.symbols, size=(characters, len(sources)))
        follows = rng.random((characters, len(sources))) < self.predictability
        for t in range(1, characters):
            text[t] = np.where(follows[t], successors[sources, text[t - 1]], text[t])
        windows = np.lib.stride_tricks.sliding_window_view(text.T, self.length + 1, axis=1).reshape(-1, self.length + 1)
        return np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, -1])


Size = Annotated[int, Field(ge=1, le=10**8)]


@DATA("synthetic")
@dataclass(frozen=True)
class Synthetic:
    """Gaussian classes: a sample is its class's centre plus standard normal noise, in every coordinate.

    The centres are drawn once from N(0, separation^2 / features) in every coordinate, so that two centres are
    about sqrt(2) * separation apart, whatever the number of features.
    """

    samples: Annotated[Size, Field(description="training samples")] = 2000
    test_samples: Annotated[Size, Field(description="test samples")] = 500
    shape: Annotated[
        tuple[Annotated[int, Field(ge=1, le=10_000)], ...],
        Field(min_length=1, max_length=3, description="of one sample: [features] or [channels, height, width]"),
    ] = (20,)
    classes: Annotated[int, Field(ge=2, le=10_000, description="number of classes, equally likely")] = 4
    separation: Annotated[float, Field(ge=0, le=1e6, description="distance scale between class centres")] = 4.0

    def outline(self, setting: ScenarioView) -> Outline:
        values = (self.samples + self.test_samples) * prod(self.shape)
        check_values(values, 0, f"{values:,} synthetic numbers", "samples")
        return Outline(self.shape, self.classes)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        self.outline(setting)
        features = prod(self.shape)
        centres = streams("synthetic centres").standard_normal((self.classes, features), dtype=np.float32)
        centres *= np.float32(self.separation / np.sqrt(features))
        parts: dict[str, Any] = {}
        for number, (part, samples) in enumerate((("train", self.samples), ("test", self.test_samples))):
            rng = streams("synthetic samples", number)
            labels = rng.integers(self.classes, size=samples)
            x = rng.standard_normal((samples, features), dtype=np.float32)
            x += centres[labels]
            parts |= {f"x_{part}": x.reshape(samples, *self.shape), f"y_{part}": labels}
        return Dataset(**parts, label_names=tuple(str(label) for label in range(self.classes)))


SAMPLES = 1797


def read_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Pixels (1797, 64) and labels of scikit-learn's copy."""
    pixels, labels = _digits_file()
    return pixels.copy(), labels.copy()


@cache
def _digits_file() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The file's numbers, which are read from text once in a process.

    Without importing scikit-learn, which takes as long as a short run.
    """
    package = find_spec("sklearn")
    folder = Path(package.origin).parent if package and package.origin else None
    file = folder and folder / "datasets" / "data" / "digits.csv.gz"
    if not file or not file.is_file():
        from sklearn.datasets import load_digits

        pixels, labels = load_digits(return_X_y=True)
        return pixels, labels.astype(np.int64)
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64)


@DATA("digits")
@dataclass(frozen=True)
class Digits:
    """1,797 handwritten digits of 8 x 8 pixels, built in; mean 0, variance 1. Reference: Alpaydin & Kaynak 1998."""

    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of the samples kept for the test")] = 0.2
    samples: SubsetField = field(default=None, metadata=SINCE_LATER)

    def check(self, setting: ScenarioView) -> list[tuple[str, str]]:
        if 0 < round(SAMPLES * self.test_fraction) < SAMPLES:
            return []
        nearest = 1 if self.test_fraction < 0.5 else SAMPLES - 1
        short = "test" if nearest == 1 else "training"
        problem = f"of {SAMPLES:,} samples {self.test_fraction:g} leaves none for {short}"
        return [("test_fraction", f"{problem}; the nearest valid value is {nearest / SAMPLES:.6f}")]

    def outline(self, setting: ScenarioView) -> Outline:
        return Outline((1, 8, 8), 10)

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        pixels, labels = read_digits()
        images = pixels.reshape(-1, 1, 8, 8)
        order = streams("split").permutation(len(labels))
        cut = round(len(labels) * self.test_fraction)
        test, train = order[:cut], order[cut:]
        images = ((images - images[train].mean()) / images[train].std()).astype(np.float32)
        data = Dataset(images[train], labels[train], images[test], labels[test], tuple("0123456789"))
        return subset(data, self.samples, streams)
