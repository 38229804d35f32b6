"""How often intervals hold and stars are false in studies of equals, of equal and unequal shapes and with collapses.

    python results/referee/stars.py [--studies 1000]

The shapes and counts are those of ``tests/experiments/test_null_studies.py``: six configurations of equal means. Writes
stars.csv beside this file, a row a shape, number of seeds, and whether a collapse was seen: studies, studies with a
false star of the family, and of how many printed intervals of means and of differences how many hold the true value.
"""

import argparse
import sys
from pathlib import Path

import pandas

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))


def rows(studies: int) -> list[dict[str, object]]:
    """A row a shape, number of seeds and whether a collapse was seen."""
    from tests.experiments import test_null_studies as null

    null.STUDIES = studies
    found = []
    for shape in null.SHAPES:
        for seeds in null.SEEDS:
            for seen, (number, means, differences, stars) in null.count(shape, seeds).items():
                found.append({"shape": shape, "seeds": seeds, "collapse_seen": seen, "studies": number,
                              "with_stars": stars, "means": len(means), "means_held": sum(means),
                              "differences": len(differences), "differences_held": sum(differences)})  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    table = pandas.DataFrame(rows(parser.parse_args().studies))
    table.to_csv(HERE / "stars.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
