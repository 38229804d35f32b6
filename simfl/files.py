"""Where optional real data lies: measured latencies, images, tables that simfl does not ship."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from simfl.errors import MissingError

__all__ = ["DATA_PATH", "DataPath", "data_root", "data_file"]

DATA_PATH = "simfl: a data file or folder"
"""Marks the types of plugin fields that name a file or folder of the user."""

DataPath = Annotated[str, Field(min_length=1, max_length=4096), DATA_PATH]
"""The type of a plugin field that names a data file (or folder), relative to the scenario file's folder.

Open it as ``scenario.file(self.path)``. The content counts in the scenario's digest, not the path.
"""


def data_root() -> Path | None:
    """The data folder: ``$SIMFL_DATA`` if set, else ``data`` or ``../shared/data`` beside the checkout or the
    working directory; None where there is none.
    """
    if named := os.environ.get("SIMFL_DATA"):
        return Path(named) if Path(named).is_dir() else None
    checkout = Path(__file__).resolve().parent.parent
    for base in (Path.cwd(), checkout):
        for folder in (base / "data", base.parent / "shared" / "data"):
            if folder.is_dir():
                return folder
    return None


def data_file(*names: str) -> Path:
    """The first of the named files that the data folder holds.

    Raises:
        MissingError: there is no data folder, or none of the files is in it.
    """
    root = data_root()
    for name in names:
        if root is not None and (root / name).exists():
            return root / name
    raise MissingError(f"{' or '.join(names)} not found: put it into ./data or name the data folder in SIMFL_DATA")
