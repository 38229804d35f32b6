"""READMEs of results/ are pages of the site, and links lead to these."""

import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "docs" / "site"))

import measured  # noqa: E402

READMES = sorted(HERE.glob("results/*/README.md"))


def test_links_to_readmes_lead_to_their_pages():
    text = "[a](../../results/dp/README.md), [b](../../results/dp/accuracy.svg)"
    there = "[a](../reference/generated/measured/dp.md), [b](../../results/dp/accuracy.svg)"
    assert measured.linked(text, "how-to/dp") == there
    assert measured.linked("[a](../results/dp/README.md)", "index") == "[a](reference/generated/measured/dp.md)"


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_links_of_a_readme_lead_from_its_page_to_the_same_files(readme):
    folder = HERE / "docs" / measured.FOLDER

    def files(text, start):
        return [(start / target.partition("#")[0]).resolve() for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", text)]

    there = files(measured.moved(readme), folder)
    for before, after in zip(files(readme.read_text(), readme.parent), there, strict=True):
        if before in READMES:
            assert after == folder / f"{before.parent.name}.md"
        else:
            assert after == before and before.is_file()
