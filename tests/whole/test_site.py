"""The documentation site: it builds without a warning, and a browser shows it without the network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chromium import chromium, executable

HERE = Path(__file__).resolve().parents[2]
pytestmark = [] if "SIMFL_SITE" in os.environ else pytest.mark.slow  # .ci/run builds the site, and names it


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site: SIMFL_SITE, where somebody has just built it, else built now."""
    if "SIMFL_SITE" in os.environ:
        return Path(os.environ["SIMFL_SITE"]).resolve()
    pytest.importorskip("myst_nb", reason="the extra 'docs' is not installed")
    folder = tmp_path_factory.mktemp("site")
    how = ["-q", "-W", "-c", "docs/site", "-d", folder / "doctrees"]
    command = [sys.executable, "-m", "sphinx", *how, "docs", folder / "html"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder / "html"


def test_every_page_has_its_place(site):
    docs = HERE / "docs"
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    assert pages <= {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    index = (site / "index.html").read_text()
    for page in pages - {"index"} | {"reference/generated/families", "reference/generated/gallery"}:
        assert f'href="{page}.html"' in index, page


def test_the_families_and_the_gallery_are_complete(site):
    import simfl.agents  # noqa: F401  # with the scenario's, these are all plugins
    import simfl.scenario  # noqa: F401
    from simfl.core.registration.family_index import FAMILIES

    families = (site / "reference/generated/families.html").read_text()
    shipped = [(name, cls.__module__) for registry in FAMILIES.values() for name, cls in registry.items()]
    for name, module in shipped:
        if module.startswith("simfl."):
            assert f": {name}" in families, name
    for registry in FAMILIES.values():  # each family leads to its protocol in the reference
        assert f"api.html#{registry.protocol.__module__}.{registry.protocol.__name__}" in families, registry.family
    gallery = (site / "reference/generated/gallery.html").read_text()
    for scenario in (HERE / "scenarios").glob("*.yaml"):
        assert f"gallery-{scenario.stem}.svg" in gallery, scenario.stem


def test_a_browser_shows_the_site_without_the_network(site):
    if executable() is None:
        pytest.skip("chromium is not installed")
    with chromium() as page:
        for path in sorted(site.rglob("*.html")):
            if "_modules" in path.parts or path.name == "search.html":
                continue
            for width in (1280, 390):
                page.open(path.as_uri(), width=width)
                assert page.errors == [], path
                assert all(url.startswith(("file:", "data:", "blob:")) for url in page.requests), page.requests
                assert page.js("document.querySelector('h1').innerText.length") > 2
                assert page.js("[...document.images].every(image => image.complete && image.naturalWidth > 0)"), path
                assert page.js("document.documentElement.scrollWidth <= innerWidth"), (path, width)
        page.open((site / "tutorials/notebook.html").as_uri())
        assert page.js("document.querySelectorAll('.cell_output table').length") == 3
        assert page.js("document.querySelectorAll('.cell_output img').length") == 2
