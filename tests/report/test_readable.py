"""What people see in figures: labels that differ, titles that do not overlap, ticks that are right, whole rounds."""

import itertools
import re
import shutil
from html import unescape

import numpy as np
import pandas
import pytest
from matplotlib.text import Text

from simfl.report import draw, read_study, style
from simfl.report.figures.latency import _histogram
from simfl.report.html_page import _key
from simfl.report.page_tables import group_table
from simfl.report.svg import inline
from tests.conftest import played
from tests.support.damages import reseal
from tests.support.known_truth import Truth, simulated

LONG = "batch_partition:T=4,mode=fair,shuffle=true,k=16 / learning_rate=0.1 / staleness="


def test_a_legend_shortens_names_only_where_they_stay_different():
    ends = [LONG + end for end in ("constant", "polynomial", "hinge")]
    begins = [begin + LONG for begin in ("half", "random", "weighted")]
    middles = [f"{'a' * 40}{n}{'b' * 40}" for n in range(3)]
    for names in (ends, begins, middles, [*ends, *begins], ["short", *ends]):
        found = style.distinct(names)
        assert len(set(found)) == len(names)
        assert all(len(line) <= style.NAME for name in found for line in name.split("\n"))
    assert style.distinct(["short", "names"]) == ["short", "names"]


def overlapping(fig):
    """Pairs of titles that cover each other."""
    fig.draw_without_rendering()
    boxes = [axes._left_title.get_window_extent() for axes in fig.axes if axes.get_title(loc="left")]
    return [(a, b) for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
def test_titles_of_panels_keep_apart():
    names = [f"{LONG}{n}" for n in range(3)]
    for width in (style.WIDE_IN, 3.4):
        with style.settings(figure_figsize=(width, 2.6)):
            fig, grid = style.figure(1, 3)
            for axes, name in zip(grid[0], names, strict=True):
                axes.set_title(name)
            assert overlapping(fig)
            for axes, name in zip(grid[0], names, strict=True):
                style.title(axes, name)
            assert not overlapping(fig)


def test_numbers_that_are_written_keep_their_digits(single):
    """Coordinates of the page are rounded; ticks of 0.025 and 0.125 are not."""
    with style.settings(svg_fonttype="none"):
        fig, ((axes,),) = style.figure()
        axes.plot([0.025, 0.125], [0.0125, 0.0375])
        axes.set_xticks([0.025, 0.125])
        axes.set_yticks([0.0125, 0.0375])
        text = inline(fig, "x", "about")
    written = set(re.findall(r">([\d.]+)</text>", text))
    assert {"0.025", "0.125", "0.0125", "0.0375"} <= written
    assert not re.search(r'd="[^"]*\d\.\d{3}', text)


def test_a_picture_has_every_word_of_its_figure():
    """Also those below it, of what certificates take for granted; the words are looked at where nothing is drawn."""
    with style.settings(svg_fonttype="none"):
        fig, ((axes,),) = style.figure()
        axes.set_xlabel("Round")
        style.note(axes, "a few seeds")
        style.footnote(fig, ["if only sums are seen, & updates stay the same; " * 4])
        texts = [" ".join(text.get_text().split()) for text in fig.findobj(Text) if text.get_text()]
        words = " ".join(unescape(re.sub(r"<[^>]*>", " ", inline(fig, "x", "about"))).split())
    assert sum(text.count("if only sums are seen, &") for text in texts) == 4
    assert all(text in words for text in texts), (texts, words)


@pytest.mark.parametrize("value", [0.1, 0.0, 3.7])
def test_a_constant_latency_has_no_negative_axis(value):
    fig, table = _histogram(np.full(200, value))
    assert table.clients.sum() == 200 and (table.from_s >= 0).all()
    assert (table.from_s <= value).all() and (table.to_s >= value).all()
    assert table.to_s.max() - table.from_s.min() < max(value, 0.01)


def test_a_sweep_of_the_network_says_whose_network_is_drawn(tmp_path):
    for latency in (0.1, 0.2):
        played(tmp_path, [f"network.latency_s={latency}", "training.rounds=2", "privacy=none", "learning=none"])
    study = read_study([tmp_path / "sample"])
    fig, _ = draw("latency", study)
    assert fig.axes[0].get_title(loc="left") == f"{study.groups[0].label} only" and "0.1" in study.groups[0].label


def test_a_comparison_in_one_network_needs_no_such_word(comparison):
    assert not draw("latency", comparison)[0].axes[0].get_title(loc="left")


def test_lines_of_neighbouring_swatches_differ_in_dashes_and_all_in_their_marker_too():
    keys = [_key(number) for number in range(14)]
    assert len({key["dashes"] for key in keys[:6]}) == 6
    assert len({(key["dashes"], key["marker"]) for key in keys}) == 14
    assert all(re.fullmatch(r"M[-\d. L]+Z", key["marker"]) for key in keys)


def test_an_empty_panel_says_why(comparison, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(comparison.parent, folder)
    study = read_study([folder / comparison.name])
    emptied = study.groups[1].first.path
    (emptied / "participation.csv").write_text("round,client,weight\n")
    reseal(emptied)
    study = read_study([folder / comparison.name])
    fig, table = draw("participation", study)
    texts = [[text.get_text() for text in axes.texts] for axes in fig.axes]
    assert texts == [[], ["nobody took part"], []] and study.groups[1].label not in set(table.group)
    assert [axes.get_title(loc="left") for axes in fig.axes] == [group.label for group in study.groups]


@pytest.mark.parametrize("name", ["accuracy", "privacy", "fairness", "loss", "participation"])
def test_rounds_are_whole_and_numbered_as_in_the_tables(comparison, name):
    study = read_study([comparison])
    fig, table = draw(name, study)
    fig.draw_without_rendering()
    for axes in fig.axes:
        ticks = [text.get_text() for text in axes.get_xticklabels() if text.get_text()]
        assert all(re.fullmatch(r"[−-]?\d+", tick) for tick in ticks), ticks
    if name == "participation":
        assert fig.axes[0].images[0].get_extent()[:2] == [-0.5, 13.5]
    else:
        assert (table["round"].min(), table["round"].max()) == (0, 13)
        assert all(axes.get_xlabel() == "Round" and axes.get_xlim()[0] == 0 for axes in fig.axes)


def test_rounds_to_the_target_are_where_the_figure_reaches_it(comparison):
    study = read_study([comparison])
    _, table = draw("accuracy", [study.groups[0].first.path])
    first = table[table["mean"] >= study.target]["round"].iloc[0]
    assert study.groups[0].first.to_target(study.target)["rounds_to_target"] == first + 1, "rounds are a number of them"


def test_markers_on_the_border_are_drawn_whole(comparison):
    fig, _ = draw("tradeoff", comparison)
    markers = [line for axes in fig.axes for line in axes.lines if line.get_marker() in style.MARKERS]
    assert len(markers) == 3 * len(fig.axes) and len(fig.axes) == 3 and not any(line.get_clip_on() for line in markers)


def test_the_page_warns_of_skipped_rounds_and_explains_missing_seeds(comparison, comparison_page):
    text = comparison_page
    found = pandas.read_csv(comparison / "index.csv").groupby("selection").skipped.sum()
    for choice, skipped in found.items():
        assert (f"{choice} skipped {skipped} of 42 rounds" in text) == (skipped >= 4.2)
    assert "family-wise" in text and "certain" not in text


def test_the_guarantee_stands_before_times_in_the_table():
    study = simulated([Truth(), Truth()], np.random.default_rng(0))
    names = [head.name for head in group_table(study).columns]
    assert names.index("privacy_semi_strong") < names.index("time_s") and names.index("privacy_semi_strong") <= 3


def test_a_difference_of_one_pair_is_not_drawn():
    truths = [Truth(), Truth(seeds=(0,)), Truth()]
    study = simulated(truths, np.random.default_rng(0), seeds=4)
    fig, table = draw("differences", study)
    assert set(table.seeds) == {1, 4}
    tags = {artist.get_gid() for axes in fig.axes for artist in axes.lines} - {None}
    assert tags == {style.tag(study.groups[2]), f"thin-{style.tag(study.groups[2])}"}
