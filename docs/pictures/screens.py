"""The pictures of the README that show pages: the report, and the live page of watch. Needs Chromium.

    PYTHONPATH=. python docs/pictures/screens.py [--out build/screens]

Runs the comparison of the README's figure (finished runs in OUT are used again), writes its report and opens the live
page, and photographs the upper part of both with a headless Chromium into ``report.png`` and ``watch.png`` beside this
file.
"""

import argparse
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

import simfl
from tests.support.chromium import chromium

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT, COLOURS = 1000, 1060, 64
POLICIES = ["random", "batch_partition:T=4", "half_partition:T=4"]


def photograph(url: str, target: Path) -> None:
    """The upper part of a page, in so few colours that the file is small."""
    with chromium() as page:
        page.open(url, width=WIDTH, height=HEIGHT)
        page.js("new Promise(resolve => setTimeout(resolve, 3000))")
        page.screenshot(target, whole=False)
    picture = Image.open(io.BytesIO(target.read_bytes())).convert("RGB").quantize(COLOURS)
    picture.save(target, optimize=True)


@contextmanager
def watched(folder: Path) -> Iterator[str]:
    """The address of the live page of a folder."""
    command = [sys.executable, "-u", "-m", "simfl", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = None
        while address is None:
            address = re.search(r"http://\S+", process.stdout.readline())
        yield address[0]
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/screens"))
    out = parser.parse_args().out
    comparison = simfl.compare("quickstart", {"selection": POLICIES}, replications=5, out=out)
    page = (out / "report.html").resolve()
    subprocess.run([sys.executable, "-m", "simfl", "report", str(comparison.path), "-o", str(page)], check=True)
    photograph(page.as_uri(), HERE / "report.png")
    with watched(comparison.path) as address:
        photograph(address, HERE / "watch.png")


if __name__ == "__main__":
    main()
