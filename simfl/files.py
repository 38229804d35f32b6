"""Where optional real data lies: measured latencies, images, tables that simfl does not ship."""

import os
from pathlib import Path

from simfl.errors import MissingError

__all__ = ["data_root", "data_file"]


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
