"""Reading files of data."""

from simfl.core.storage.data_folder import data_places, data_root, load_cached
from simfl.learning.data.csv import read_csv
from simfl.learning.data.generated import read_digits
from simfl.learning.data.image_arrays import broken, unit_rows
from simfl.learning.data.image_sets import Root

__all__ = [
    "Root", "broken", "data_places", "data_root", "load_cached", "read_csv", "read_digits", "unit_rows",
]  # fmt: skip
