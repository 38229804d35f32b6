"""The page: self-contained, escaped, small, true to the tables; opened in a real browser where there is one."""

import base64
import csv
import io
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.experiments.compare.intervals import Interval
from simfl.report import draw, read_study
from simfl.report.advice import advise
from simfl.report.html_page import page
from simfl.report.measures import UnitScale
from tests.support.chromium import chromium, executable
from tests.support.damages import reseal, reseal_sweep
from tests.support.known_truth import Truth, simulated


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="session")
def html(comparison_page):
    return comparison_page


def test_the_page_refers_to_nothing_outside(html):
    for tag, attributes in Elements(html).found:
        for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
            if attributes.get(name):
                assert attributes[name].startswith(("#", "data:")), (tag, attributes[name])
        assert tag not in ("iframe", "object", "embed", "base")
    for style in re.findall(r"<style>(.*?)</style>", html, re.S):
        assert "@import" not in style and "url(" not in style
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'", html)


def test_the_page_is_the_same_every_time_and_small(html, comparison):
    assert page(read_study([comparison])) == html
    assert len(html.encode()) < 1_000_000


def test_ids_are_unique(html):
    ids = [attributes["id"] for _, attributes in Elements(html).found if attributes.get("id")]
    assert len(ids) == len(set(ids))


def test_every_download_is_the_table_behind_its_figure(html, comparison):
    links = {a["download"]: a["href"] for tag, a in Elements(html).found if tag == "a" and "download" in a}
    assert {
        "sample-accuracy.csv",
        "sample-privacy.csv",
        "sample-groups.csv",
        "sample-runs.csv",
        "scenario.yaml",
    } <= set(links)
    for name in ("accuracy", "differences", "participation"):
        text = base64.b64decode(links[f"sample-{name}.csv"].partition(",")[2]).decode()
        _, table = draw(name, comparison)
        pandas.testing.assert_frame_equal(pandas.read_csv(io.StringIO(text)), table, check_dtype=False)
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(links["sample-runs.csv"].partition(",")[2]).decode())))
    assert len(rows) == 9 and {row["status"] for row in rows} == {"done"}


def test_what_users_wrote_is_escaped(comparison, tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    folder = tmp_path / "results"
    shutil.copytree(comparison.parent, folder)
    index = folder / comparison.name / "index.csv"
    table = pandas.read_csv(index, dtype=str)
    table.loc[0, ["status", "error"]] = "failed", f"{evil} & more"
    table.loc[table.selection == "partition", "selection"] = f'"{evil} $\\frac$'
    table.to_csv(index, index=False)
    (folder / comparison.name / "comparison.json").unlink()
    reseal_sweep(folder / comparison.name)
    for run in folder.glob("*/scenario.yaml"):
        run.write_text(run.read_text() + f"\n# {evil}\n")
        reseal(run.parent)
    text = page(read_study([folder / comparison.name]))
    assert evil not in text and "&lt;img src=x" in text
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in Elements(text).found)


def test_the_advice_follows_its_rule(comparison, no_pictures):
    study = read_study([comparison])
    advice = advise(study)
    assert min(len(group.runs) for group in study.groups) == 3
    assert advice.pick is None and not advice.changes, "so few seeds distinguish no accuracies"
    assert f'<p class="lead">No recommendation: {advice.reason}.</p>' in page(study)


def test_a_possible_loss_is_named_instead_of_a_recommendation(comparison, no_pictures, monkeypatch):
    """Six policies, five seeds: the one with the strongest guarantee is 3.1 points below."""
    truths = [Truth(noise=0.01, guarantee=1), Truth(accuracy=0.769, noise=0.01, guarantee=8)]
    study = simulated([*truths, *truths[:1] * 4], np.random.default_rng(1), seeds=5)
    advice = advise(study)
    assert advice.pick is None and study.groups[1] not in advice.running
    monkeypatch.setattr("simfl.report.html_page.advise", lambda *_: advice)
    text = page(read_study([comparison]))
    assert "Choose" not in text
    (lead,) = re.findall('<p class="lead">(.*)</p>', text)
    assert re.fullmatch(
        r"No recommendation: the loss of group_\d may be up to \d\.\d points \(against group_\d\); .*\.", lead
    )


def test_numbers_are_written_for_readers():
    assert UnitScale(0.01, "%", 1).quantity(0.9381) == "93.8\u202f%"
    assert UnitScale(1.0, "", 2).interval(Interval(-1234.5, -1234.75, -1234.25, 3)) == "−1\u20092" + "34.50 ± 0.25"
    assert UnitScale(1.0, "s", 1).text(float("nan")) == "–"


def test_a_run_alone_has_a_page_of_its_rounds(single, no_pictures):
    text = page(read_study([single]))
    assert "of simulated time" in text and 'id="all-rows"' in text
    assert text.count("<tr>") == 14 + 1


def test_report_writes_beside_the_results_and_says_where(single, tmp_path, no_pictures):
    folder = tmp_path / "run"
    shutil.copytree(single, folder)
    done = CliRunner().invoke(simfl, ["report", str(folder)])
    assert done.exit_code == 0 and done.output.startswith(str(folder / "report.html"))
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    done = CliRunner().invoke(simfl, ["report", str(tmp_path / "none")])
    assert done.exit_code == 2 and "no such folder" in done.output and "Traceback" not in done.output


# -- in a browser --------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def window():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def address(html, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


def column(window, table, place):
    return window.js(f"[...document.querySelectorAll('#{table} tbody tr')].map(r => r.cells[{place}].dataset.v)")


VIEWS = ((1280, 900, False, ""), (390, 844, False, ""), (1280, 900, True, ""), (695, 1000, False, "print"))
"""Desktop, phone, dark, paper: width, height, dark, media."""


@needs_browser
def test_it_opens_without_errors_or_requests_and_fits(window, address, tmp_path):
    for width, height, dark, media in VIEWS:
        window.open(address, width, height, dark, media)
        assert window.errors == []
        assert all(url == address or url.startswith("data:") for url in window.requests)
        assert window.js("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        shot = tmp_path / f"{width}-{dark}-{media}.png"
        window.screenshot(shot)
        assert shot.stat().st_size > 50_000
    window.open(address)
    window.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@needs_browser
def test_dark_and_light_differ_and_figures_follow(window, address):
    def colours(dark):
        window.open(address, dark=dark)
        return window.js(
            "['body', '.plot text', '.plot .series > path'].map(q => getComputedStyle(document.querySelector(q)))"
            ".map((s, i) => [s.backgroundColor, s.fill, s.stroke][i])"
        )

    light, dark = colours(False), colours(True)
    assert all(a != b for a, b in zip(light, dark, strict=True))


@needs_browser
def test_headings_sort_both_ways_and_empty_cells_stay_last(window, address):
    window.open(address)
    place = window.js(
        "[...document.querySelectorAll('#groups th')].findIndex(h => h.textContent.startsWith('Cardinality'))"
    )
    click = f"document.querySelectorAll('#groups th button')[{place}].click()"
    window.js(click)
    down = [float(value) for value in column(window, "groups", place)]
    assert down == sorted(down, reverse=True) and len(set(down)) == 3
    window.js(click)
    assert [float(value) for value in column(window, "groups", place)] == sorted(down)
    assert window.js(f"document.querySelectorAll('#groups th')[{place}].getAttribute('aria-sort')") == "ascending"
    window.js(f"document.querySelectorAll('#groups tbody td')[{place}].dataset.v = ''; {click}")
    assert column(window, "groups", place)[-1] == ""


@needs_browser
def test_the_filter_leaves_rows_with_all_words(window, address):
    window.open(address)
    window.js("(i => { i.value = 'batch  2'; i.dispatchEvent(new Event('input')); })(document.querySelector('input'))")
    shown = window.js(
        "[...document.querySelectorAll('#all-rows tbody tr')].filter(r => !r.hidden).map(r => r.textContent)"
    )
    assert shown and len(shown) < 9 and all("batch_partition" in text for text in shown)
    assert window.js("document.querySelector('output').textContent") == f"{len(shown)} of 9"


@needs_browser
def test_a_number_in_the_filter_is_a_whole_number_of_the_names(window, address):
    window.open(address)
    window.js("(i => { i.value = 'random 1'; i.dispatchEvent(new Event('input')); })(document.querySelector('input'))")
    shown = window.js(
        "[...document.querySelectorAll('#all-rows tbody tr')].filter(r => !r.hidden).map(r => r.cells[1].textContent)"
    )
    assert shown == ["1"]  # the seed; every accuracy and digest holds a 1, too


@needs_browser
def test_wide_tables_say_that_there_is_more_and_show_the_guarantee_first(window, address):
    window.open(address, 1440, 900)
    count = "+(document.querySelectorAll('.cue')[0].textContent.match(/^\\d+/) ?? [0])[0]"
    window.js("new Promise(done => setTimeout(done, 200))")
    hidden = window.js(count)
    assert hidden > 0
    outside = window.js("""(() => {
        const box = document.querySelector('#groups').parentNode.getBoundingClientRect();
        return [...document.querySelectorAll('#groups th')].filter(h => h.getBoundingClientRect().right > box.right + 1)
          .map(h => h.innerText.toLowerCase());
    })()""")
    assert len(outside) == hidden and not any("strong" in name or "weak" in name for name in outside)
    window.js("document.querySelector('#groups').parentNode.scrollLeft = 1e5")
    window.js("new Promise(done => setTimeout(done, 200))")
    assert window.js("document.querySelectorAll('.cue')[0].textContent") == ""


@needs_browser
def test_selecting_a_group_fades_the_others(window, address):
    window.open(address)
    opacity = "['0', '1'].map(n => getComputedStyle(document.querySelector(`#figure-accuracy .series-${n}`)).opacity)"
    assert window.js(opacity) == ["1", "1"]
    window.js("document.querySelector('.keys button').click()")
    window.js("new Promise(done => setTimeout(done, 400))")
    first, second = map(float, window.js(opacity))
    assert first == 1 and second < 0.3


@needs_browser
def test_pointing_into_a_figure_reads_the_recorded_values(window, address, comparison):
    window.open(address)
    x, y = window.js("""(() => {
        const svg = document.querySelector('#figure-accuracy svg');
        svg.scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = svg.getBoundingClientRect();
        return [box.x + box.width * 0.5, box.y + box.height * 0.5];
    })()""")
    window("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    head, *rest = window.js("document.querySelector('.hover').innerText").split("\n")
    read = dict(zip(rest[::2], rest[1::2], strict=True))
    number = int(head.removeprefix("Round "))
    _, table = draw("accuracy", comparison)
    expected = table[table["round"] == number].set_index("group")["mean"]
    assert set(read) == set(expected.index)
    for group, text in read.items():
        assert float(text.removesuffix("\u202f%")) == pytest.approx(100 * expected[group], abs=0.11)
