"""Anybody's Parquet file: tables, lists of numbers, pictures and texts, as Hugging Face's ``datasets`` exports them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simfl.core.errors import MissingError
from simfl.core.rng import Streams
from simfl.core.scenario_view import ScenarioView
from simfl.core.storage.data_folder import DataPath, load_cached
from simfl.learning.data.base import DATA, Dataset
from simfl.learning.data.client_ids import cut_by_client
from simfl.learning.data.parquet_file import Roles, read_frame, read_samples, roles_of
from simfl.learning.data.parquet_samples import CLIENT, assemble, with_clients
from simfl.learning.data.table import encode


@DATA("parquet")
@dataclass(frozen=True)
class Parquet:
    """A Parquet file (extra ``parquet``) of pictures, lists of numbers, texts of one length, or table columns.

    Pictures are a column as Hugging Face exports it (``bytes`` of PNG or JPEG) or nested lists; they are scaled as
    ``npz`` scales them. Texts need labels of one character, the next one. Where no column holds such samples, all
    columns but label and client are features, as in ``csv``. The partition ``natural`` splits by the column of the
    clients, also called ``client``. Without ``test_path`` the same share of each client's samples is kept for the test.
    """

    path: Annotated[DataPath, Field(description="the file")]
    label: Annotated[
        str | None, Field(description="column to predict; null = label, labels, y, character, fine_label or target")
    ] = None
    sample: Annotated[
        str | None, Field(description="column of the samples; null = image, img, x, pixels, text or the only such one")
    ] = None
    client: Annotated[
        str | None,
        Field(description="column of the clients; null = client, client_id, writer_id, character_id or user"),
    ] = None
    tokens: Annotated[bool, Field(description="lists are tokens 0, 1, 2, ... of a text; no scaling")] = False
    test_path: Annotated[DataPath | None, Field(description="file with the test rows; null = test_fraction")] = None
    test_fraction: Annotated[float, Field(gt=0, lt=1, description="share of each client's rows for the test")] = 0.2
    drop: Annotated[tuple[str, ...], Field(description="columns to leave out")] = ()

    example = {"path": "export.parquet"}

    def outline(self, setting: ScenarioView) -> None:
        for path in self._paths(setting):
            self._roles(path)

    @property
    def by_seed(self) -> bool:
        return self.test_path is None

    def load(self, setting: ScenarioView, streams: Streams) -> Dataset:
        paths = self._paths(setting)
        roles = [self._roles(path) for path in paths]
        if roles[0].sample is None:
            return self._table(paths, roles[0], streams)
        keys = [f"parquet v1 {each} {self.tokens}" for each in roles]
        parts = [
            load_cached(key, [path], partial(read_samples, path, each))
            for key, path, each in zip(keys, paths, roles, strict=True)
        ]
        if len(parts) == 1:
            (whole,) = parts
            cuts = cut_by_client(whole.get(CLIENT), len(whole["y"]), self.test_fraction, streams("split"))
            parts = [whole | {name: whole[name][cut] for name in ("x", "y", CLIENT) if name in whole} for cut in cuts]
        return assemble(parts[0], parts[1], self.tokens, roles[0].client, (paths[0], paths[-1]))

    def _table(self, paths: list[Path], roles: Roles, streams: Streams) -> Dataset:
        """Features of all columns but those of label and client."""
        frames = [read_frame(path, roles) for path in paths]
        owners = [frame.pop(CLIENT).to_numpy() if roles.client else None for frame in frames]
        if len(frames) == 1:
            cuts = cut_by_client(owners[0], len(frames[0]), self.test_fraction, streams("split"))
            frames = [frames[0].iloc[cut] for cut in cuts]
            owners = [owners[0][cut] if owners[0] is not None else None for cut in cuts]
        data = encode(frames[0], frames[1], roles.label, (paths[0], paths[-1]))
        return with_clients(data, owners[0], owners[1], roles.client)

    def _paths(self, setting: ScenarioView) -> list[Path]:
        """The file, and that of the test rows where there is one."""
        paths = []
        for name, key in ((self.path, "path"), (self.test_path, "test_path")):
            if name is not None:
                paths.append(Path(setting.file(name)))
                if not paths[-1].is_file():
                    raise MissingError(f"learning.data.{key}: {paths[-1]} not found")
        return paths

    def _roles(self, path: Path) -> Roles:
        return roles_of(path, self.label, self.sample, self.client, self.drop)
