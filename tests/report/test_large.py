"""The page of a sweep of many groups, in a browser: nothing on it is wider than the window."""

import json

import pytest

import simfl
from simfl.report.html_page import page
from simfl.report.page_tables import equal_table
from simfl.report.study_reader import read_study
from tests.support.chromium import chromium, executable

pytestmark = pytest.mark.usefixtures("sweeps_here")


SCENARIO = {
    "name": "large",
    "clients": 24,
    "network": {"name": "star", "latency_s": {"name": "log_normal", "median": 0.1, "sigma": 0.5}},
    "devices": {"availability": {"name": "bernoulli", "dropout": 0.1}, "computation": 1},
    "selection": {"name": "random", "k": 4},
    "training": {"name": "fedavg", "rounds": 3},
    "learning": {"name": "none", "parameters": 1000, "samples": 10},
    "privacy": {"name": "multi_round", "every": 0, "budget": 100000},
}
WIDER = """(() => {
  const width = document.documentElement.clientWidth, wider = [];
  for (const part of document.querySelectorAll("figure, .scroll, .drawing, .tiles, pre, nav, header, section")) {
    const box = part.getBoundingClientRect();
    if (box.right > width + 1 || box.left < -1) wider.push(`${part.tagName} ${part.id} ${part.className}`);
  }
  for (const inner of document.querySelectorAll("figure svg, table")) {
    const frame = inner.closest(".drawing, .scroll"), box = inner.getBoundingClientRect();
    const scrolls = frame && ["auto", "scroll"].includes(getComputedStyle(frame).overflowX);
    if (box.right > width + 1 && !scrolls) wider.push(inner.tagName);
  }
  return JSON.stringify([document.documentElement.scrollWidth - width, wider]);
})()"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    grid = {"selection.k": list(range(1, 13)), "devices.availability.dropout": [0, 0.1, 0.2, 0.3]}
    swept = simfl.sweep(SCENARIO, grid, out=tmp_path_factory.mktemp("large"), progress=False, jobs=1)
    assert swept.failed.empty
    return read_study([swept.path])


def test_a_study_of_many_groups_has_no_table_of_budgets(study):
    assert len(study.groups) == 48 and equal_table(study) is None


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
def test_nothing_is_wider_than_the_page(study, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page(study), encoding="utf-8")
    with chromium() as window:
        for width in (360, 1024, 1440):
            window.open(path.as_uri(), width=width)
            assert not window.errors
            assert json.loads(window.js(WIDER)) == [0, []], width
