"""A process (``python -m``) that simulates parts of a forecast; its input says which."""

import json
import pickle
import sys
from base64 import b64decode
from pathlib import Path

from simfl.deployment.forecasting.parts import PartStore, PartTask, simulate_part
from simfl.plugins import ExhaustedError, SimflError, is_exhausted


def main() -> None:
    """Simulates the tasks one by one, and prints each that is ready; a failure is a line and an exit code."""
    print("ready", flush=True)
    try:
        folder, key, tasks = json.loads(sys.stdin.readline())
        place = PartStore(Path(folder), key)
        plan = pickle.loads(b64decode(sys.stdin.readline()))  # noqa: S301  (from the process that has started this one)
        for task in (PartTask(*numbers) for numbers in tasks):
            place.store(task, simulate_part(plan, task))
            print(*task, flush=True)
    except (SimflError, OSError, MemoryError) as error:
        print(str(error) or "out of memory", file=sys.stderr)
        sys.exit((ExhaustedError if is_exhausted(error) else SimflError).exit_code)


if __name__ == "__main__":
    main()
