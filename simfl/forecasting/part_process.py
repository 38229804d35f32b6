"""A process that simulates parts of a forecast, ``python -m simfl.forecasting.part_process``; its input says which."""

import json
import pickle
import sys
from base64 import b64decode
from pathlib import Path

from simfl.forecasting.parts import PartStore, PartTask, simulate_part


def main() -> None:
    """Simulates the tasks one by one, and prints each that is ready."""
    folder, key, tasks = json.loads(sys.stdin.readline())
    place = PartStore(Path(folder), key)
    plan = pickle.loads(b64decode(sys.stdin.readline()))  # noqa: S301  (from the process that has started this one)
    for task in (PartTask(*numbers) for numbers in tasks):
        place.store(task, simulate_part(plan, task))
        print(*task, flush=True)


if __name__ == "__main__":
    main()
