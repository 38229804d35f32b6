"""LaTeX tables: what the terminal prints, escaped, in environments that end, with the best in bold."""

import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

import simfl as api
from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.report import read_study
from simfl.report.study_tables import escape, latex
from tests.support.known_truth import Truth, simulated

pytestmark = pytest.mark.usefixtures("sweeps_here")

ACTIVE = re.compile(r"(?<!\\)[&%$#_{}~^]")


def rows(text):
    """The body's rows as lists of cells, after a look at what a compiler would refuse."""
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    assert not stack
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1])
    head = text.split("\\toprule\n")[1].split("\\midrule")[0]
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0]
    cells = [
        re.split(r"(?<!\\)&", line.removesuffix(r"\\").strip()) for line in [*head.splitlines(), *body.splitlines()]
    ]
    for line in body.splitlines():
        assert line.endswith(r"\\") and not line.startswith(("[", "*"))
        plain = (
            line.replace(r"$\pm$", "").replace("$-$", "").replace(r"\textbf{", "").replace("{}", "").replace("}", "")
        )
        assert not set(ACTIVE.findall(plain)) - {"&"}, line
    assert all(len(row) == columns for row in cells)
    return [[cell.strip() for cell in row] for row in cells]


def plain(cell):
    text = re.sub(r"^\\textbf\{(.*)\}$", r"\1", cell).replace(r"$\pm$ ", "±").replace("$-$", "-").replace("--", "–")
    return re.sub(r"\\([&%$#_{}])", r"\1", text)


def test_cells_are_those_of_the_terminal(comparison, capsys):
    compared = api.open(comparison)
    head, *body = rows(compared.latex())
    compared.show(columns=["all"])
    printed = capsys.readouterr().out.split("\ndifference to")[0]
    for label, *cells in body:
        (line,) = [line for line in printed.splitlines() if line.startswith(plain(label) + " ")]
        shown = [cell for cell in re.split(r" {2,}", line) if cell][1:]
        assert all(plain(cell) in shown for cell in cells), (cells, shown)
    assert "Accuracy" in head and "Traffic, MB" in head
    assert "% needs \\usepackage{booktabs}" in compared.latex() and "over 3 seeds" in compared.latex()


def test_the_best_is_bold_and_only_it():
    study = simulated([Truth(), Truth(accuracy=0.9), Truth(accuracy=0.2)], np.random.default_rng(0))
    head, *body = rows(latex(study, ["test_accuracy", "time_s"]))
    assert head == ["", "Accuracy", "Simulated time, s"]
    assert [row[1].startswith(r"\textbf{") for row in body] == [False, True, False]
    times = [[run.summary["time_s"] for run in group.runs] for group in study.groups]
    means = [np.mean(each) for each in times]
    best = int(np.argmin(means))
    p = [stats.ttest_rel(times[best], other).pvalue for place, other in enumerate(times) if place != best]
    assert [row[2].startswith(r"\textbf{") for row in body] == [i == best and max(p) <= 0.025 for i in range(3)]
    assert not any(r"\textbf" in row[2] for row in body), "what chance may have decided is not bold"
    assert all(f"{mean:.4g}" in row[2] for mean, row in zip(means, body, strict=True))


def test_a_diverged_or_missing_value_is_not_bold():
    study = simulated([Truth(), Truth(accuracy=0.9), Truth(reaches=0.0)], np.random.default_rng(0))
    study.groups[1].runs[0].results.summary["diverged_round"] = 3
    body = rows(latex(study, ["test_accuracy", "time_to_target_s"]))[1:]
    assert not body[1][1].startswith(r"\textbf{") and body[2][2] == "never"


def test_columns_that_do_not_differ_are_left_out_unless_they_are_asked_for():
    study = simulated([Truth(), Truth()], np.random.default_rng(0))
    assert not any("Skipped" in cell for cell in rows(latex(study))[0])
    assert rows(latex(study, ["skipped"])) == [["", "Skipped rounds"], [r"group\_0", "0"], [r"group\_1", "0"]]
    with pytest.raises(SimflError, match="no column 'test_acuracy'; did you mean 'test_accuracy'"):
        latex(study, ["test_acuracy"])


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=30))
@example(r"50 % & a_b^2 \{x} ~ $1 #2 <|>")
@example("[{name: clipping}]")
@example("line\nline")
@example("\r[")
def test_any_name_stays_one_cell(name):
    study = simulated([Truth(), Truth()], np.random.default_rng(0), seeds=2)
    study = replace(study, title=name, groups=(replace(study.groups[0], label=name), study.groups[1]), baseline=name)
    assert len(rows(latex(study, ["test_accuracy"]))) == 3


def test_signs_are_escaped_and_minus_is_one():
    assert escape(r"a_b & 5 % of $x$ {#1} \n") == r"a\_b \& 5 \% of \$x\$ \{\#1\} \textbackslash{}n"
    assert escape("-0.5 ±0.25 a-1 1e-05 –") == r"$-$0.5 $\pm$ 0.25 a-1 1e-05 --"


def test_stored_results_are_written_by_export_and_wrong_files_refused_first(comparison, tmp_path):
    target = tmp_path / "table.tex"
    export = ["export", str(comparison), "--latex"]
    done = CliRunner().invoke(simfl, [*export, str(target), "--columns", "test_accuracy,time_s"])
    assert done.exit_code == 0, done.output
    assert target.read_text() == latex(read_study([comparison]), ["test_accuracy", "time_s"])
    assert done.output == f"{target}\n"
    for wrong, message in ((tmp_path / "no" / "t.tex", "no folder"), (comparison / "index.csv", "holds results")):
        refused = CliRunner().invoke(simfl, [*export, str(wrong)])
        assert refused.exit_code == 2 and message in refused.output and len(refused.output.splitlines()) == 1


def test_compare_and_sweep_write_it_beside_what_they_print(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\nclients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 3}\nlearning: none\n"
    )
    common = [str(tmp_path / "s.yaml"), "selection.k=1,2", "--replications", "2", "-q", "--jobs", "1", "--out",
              str(tmp_path / "out"), "--latex"]  # fmt: skip
    for command in ("compare", "sweep"):
        target = tmp_path / f"{command}.tex"
        done = CliRunner().invoke(simfl, [command, *common, str(target)])
        assert done.exit_code == 0, done.output
        labels = [row[0] for row in rows(target.read_text())[1:]]
        assert labels == (["1", "2"] if command == "compare" else ["k=1", "k=2"])
        refused = CliRunner().invoke(simfl, [command, *common, str(tmp_path / "gone" / "t.tex")])
        assert refused.exit_code == 2 and "--latex" in refused.output and "no folder" in refused.output


def test_columns_that_no_table_shows_can_be_asked_for(comparison):
    asked = api.open(comparison).latex(["guarantee_weak", "rounds"])
    assert rows(asked)[0][1:] == ["Weak, any number of rounds", "Rounds"]


def test_a_table_that_is_too_wide_says_how_to_choose_columns(comparison, tmp_path):
    wide = CliRunner().invoke(simfl, ["export", str(comparison), "--latex", str(tmp_path / "wide.tex")])
    count = len(rows((tmp_path / "wide.tex").read_text())[0]) - 1
    assert wide.exit_code == 0 and (f"{count} columns; fewer by: simfl export" in wide.stderr) == (count > 8)
    words = ["--columns", "test_accuracy,time_s"]
    few = CliRunner().invoke(simfl, ["export", str(comparison), "--latex", str(tmp_path / "few.tex"), *words])
    assert few.exit_code == 0 and few.stderr == "" and count > 8
