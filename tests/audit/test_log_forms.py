"""One participation log in every form in which people have it: all are read back equal, or stop with what to type."""

import bz2
import gzip
import json
import lzma
import re
import shlex

import numpy as np
import pandas
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, save_npz

from simfl.cli import simfl
from simfl.core.errors import SimflError
from simfl.deployment.audit import read
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.forecasting.past import read_past

RNG = np.random.default_rng(57)
NAMES = ["ann", "bob", "cem", "dee", "eve", "flo"]
TRUTH = (RNG.random((12, 6)) < 0.5) * 1.0
TRUTH[0] = 1
WEIGHTED = TRUTH * RNG.choice([0.5, 1.5, 3.0], TRUTH.shape)
ROWS = [(int(t), NAMES[i]) for t, i in np.argwhere(TRUTH)]
DAYS = [f"2026-01-{day + 1:02d}" for day in range(12)]


def text(header, rows, mark=","):
    return "\n".join(mark.join(map(str, row)) for row in (header, *rows)) + "\n"


def shuffled(rows):
    return [rows[place] for place in np.random.default_rng(3).permutation(len(rows))]


def lists(form, numbers=False):
    """A row a round, with its clients as ``form`` writes them."""
    labels = [[i if numbers else NAMES[i] for i in np.flatnonzero(row)] for row in TRUTH]
    return [(t, form(each)) for t, each in enumerate(labels)]


def quoted(words):
    return '"' + words + '"'


PLAIN = text(("round", "client"), ROWS)
MATRIX = pandas.DataFrame(TRUTH.astype(int), columns=NAMES)
TEXTS = {
    "commas.csv": PLAIN,
    "shuffled.csv": text(("round", "client"), shuffled(ROWS)),
    "tabs.tsv": text(("round", "client"), ROWS, "\t"),
    "bars.txt": text(("round", "client"), ROWS, "|"),
    "blanks.txt": text(("round", "client"), ROWS, "  "),
    "semicolons.csv": text(("round", "client"), ROWS, ";"),
    "crlf.csv": PLAIN.replace("\n", "\r\n"),
    "spaces.csv": text((" round", " client "), [(f" {t}", f" {c} ") for t, c in ROWS]),
    "comments.csv": "# exported on Monday\n#\n" + PLAIN,
    "header_in_a_comment.csv": "# round,client\n"
    + text((0, 1), [(t, NAMES.index(c)) for t, c in ROWS]).partition("\n")[2],
    "names.csv": text(("server_round", "client_id", "training_time"), [(t, c, 0.5 * t) for t, c in ROWS]),
    "camel.csv": text(("serverRound", "clientId"), ROWS),
    "numbered_rows.csv": text(("", "round", "client"), [(i, *row) for i, row in enumerate(ROWS)]),
    "floats.csv": text(("round", "client"), [(f"{t}.0", c) for t, c in ROWS]),
    "words.csv": text(("round", "client"), shuffled([(f"round_{t}", c) for t, c in ROWS])),
    "dates.csv": text(("round", "client"), shuffled([(DAYS[t], c) for t, c in ROWS])),
    "months.csv": text(("round", "client"), shuffled([(f"Jan {t + 1:02d} 2026 10:00", c) for t, c in ROWS])),
    "python_list.csv": text(
        ("round", "selected_clients", "loss"), [(t, quoted(c), 1 / (t + 1)) for t, c in lists(str)]
    ),
    "semicolon_list.csv": text(("round", "clients"), lists(";".join)),
    "bar_list.csv": text(("round", "clients"), lists("|".join)),
    "blank_list.csv": text(("round", "clients"), lists(lambda c: " ".join(map(str, c)), numbers=True)),
    "json_list.tsv": text(("round", "clients"), lists(json.dumps), "\t"),
    "set.csv": text(("round", "clients"), [(t, quoted("{" + ", ".join(c) + "}")) for t, c in lists(list)]),
    "lines.jsonl": "".join(json.dumps({"round": t, "client": c}) + "\n" for t, c in ROWS),
    "lists.jsonl": "".join(json.dumps({"round": t, "clients": c}) + "\n" for t, c in lists(list)),
    "records.json": json.dumps([{"round": t, "client": c} for t, c in ROWS], indent=1),
    "list_records.json": json.dumps([{"round": t, "selected": None, "cids": c} for t, c in lists(list)]),
    "by_round.json": json.dumps({str(t): c for t, c in lists(list)}),
    "by_name.json": json.dumps({f"round {t}": c for t, c in shuffled(lists(list))}),
    "weights_by_round.json": json.dumps({t: dict.fromkeys(c, 1.0) for t, c in lists(list)}),
    "of_lists.json": json.dumps([c for _, c in lists(list)]),
    "pairs.json": json.dumps(lists(list)),
    "history.json": json.dumps({"losses": [[1, 0.5]], "metrics": {"who": [[t, c] for t, c in lists(list)]}}),
    "pandas.json": pandas.DataFrame(ROWS, columns=["round", "client"]).to_json(),
    "slashes.csv": text(("round", "client"), shuffled([(DAYS[t].replace("-", "/"), c) for t, c in ROWS])),
    "booleans.csv": MATRIX.astype(bool).to_csv(),
    "bare_booleans.csv": MATRIX.astype(bool).to_csv(index=False, header=False),
    "bare.csv": MATRIX.to_csv(index=False, header=False),
    "named.csv": MATRIX.to_csv(index=False),
    "pandas.csv": MATRIX.to_csv(),
    "pandas_floats.csv": MATRIX.astype(float).to_csv(),
    "numbered_header.csv": pandas.DataFrame(TRUTH.astype(int)).to_csv(index=False),
    "numbered_both.csv": pandas.DataFrame(TRUTH.astype(int)).to_csv(),
    "iteration.csv": MATRIX.rename_axis("iteration").to_csv(),
    "t.csv": MATRIX.rename_axis("t").set_axis(range(1, 13)).to_csv(sep=";"),
    "odd_index.csv": MATRIX.rename_axis("cohort").set_axis([3 * t + 7 for t in range(12)]).to_csv(),
    "date_index.csv": MATRIX.set_axis(DAYS).sample(frac=1, random_state=1).rename_axis("day").to_csv(),
    "bare_index.csv": MATRIX.set_axis(range(5, 17)).to_csv(header=False),
    "bare_dates.csv": MATRIX.set_axis(DAYS).to_csv(header=False),
}


def same(log, truth=TRUTH):
    """A log is the truth, its clients called as there or numbered."""
    order = [str(client) for client in log.clients]
    names = NAMES if set(order) <= set(NAMES) else [str(i) for i in range(6)]
    np.testing.assert_array_equal(log.matrix.toarray()[:, [order.index(name) for name in names]], truth)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_in_any_form_is_the_same_log(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(TEXTS[name].encode())
    same(read(path))


@pytest.mark.parametrize("name", ["commas.csv", "python_list.csv", "pandas.csv", "lines.jsonl", "by_round.json"])
@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        ("", lambda data: b"\xef\xbb\xbf" + data),
        ("", lambda data: data.decode().encode("utf-16")),
    ],
)
def test_packed_and_encoded_files_are_the_same_log(tmp_path, name, suffix, pack):
    if suffix == "" and "json" in name and not pack(b"").startswith(b"\xef"):
        pytest.skip("JSON is UTF-8")
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(pack(TEXTS[name].encode()))
    same(read(path))


def test_latin_1_is_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("round,client\n0,José\n0,Åsa\n".encode("latin-1"))
    log = read(path)
    assert log.clients == ["José", "Åsa"] and "read as latin-1" in log.words


def test_typed_files_are_the_same_log(tmp_path):
    frame = pandas.DataFrame(ROWS, columns=["round", "client"])
    frame.to_parquet(tmp_path / "rows.parquet")
    pandas.DataFrame(lists(list), columns=["round", "clients"]).to_parquet(tmp_path / "lists.parquet")
    MATRIX.to_parquet(tmp_path / "matrix.parquet")
    MATRIX.set_axis(DAYS).to_parquet(tmp_path / "index.parquet")
    np.save(tmp_path / "m.npy", TRUTH)
    np.savez(tmp_path / "m.npz", p=TRUTH.astype(bool))
    save_npz(tmp_path / "s.npz", csr_array(TRUTH))
    np.save(tmp_path / "i.npy", np.column_stack([np.arange(12), TRUTH]))
    save_npz(tmp_path / "si.npz", csr_array(np.column_stack([np.arange(12), TRUTH])))
    for path in sorted(tmp_path.iterdir()):
        same(read(path))


def test_weights_in_any_form_are_the_same_log(tmp_path):
    rows = [(int(t), NAMES[i], float(WEIGHTED[t, i])) for t, i in np.argwhere(WEIGHTED)]
    header = ("round", "client", "weight")
    frame = pandas.DataFrame(WEIGHTED, columns=NAMES)
    forms = {
        "a.csv": text(header, shuffled(rows)),
        "b.csv": text(header, rows, ";").replace(".", ","),
        "c.json": json.dumps([dict(zip(header, row, strict=True)) for row in rows]),
        "d.json": json.dumps({t: {c: w for s, c, w in rows if s == t} for t in range(12)}),
        "e.csv": frame.to_csv(),
        "f.csv": frame.to_csv(sep=";", decimal=",", index=False),
    }
    for name, words in forms.items():
        (tmp_path / name).write_text(words)
        same(read(tmp_path / name), WEIGHTED)


# -- which rows took part ------------------------------------------------------------------------------

OUT = [(int(t), NAMES[i]) for t, i in np.argwhere(TRUTH == 0)]
FLAGS = {
    "participated": (1, 0),
    "selected": ("True", "False"),
    "status": ("success", "failed"),
    "state": ("done", "timeout"),
    "outcome": ("OK", "late"),
    "is_late": (0, 1),
    "failed": ("no", "yes"),
    "anything": ("True", "False"),
    "note": ("completed", "dropped"),
    "phase": ("fit", "evaluate"),
    "error": ("", "out of memory"),
    "run": (1, 2),
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_that_took_no_part_are_never_counted_silently(tmp_path, name, form):
    """The command stops, and what it says to type gives the truth; so does a file of those who took part alone."""
    yes, no = FLAGS[name]
    rows = shuffled([(*row, yes) for row in ROWS] + [(*row, no) for row in OUT])
    path = tmp_path / f"log.{form}"

    def write(rows):
        if form == "csv":
            path.write_text(text(("round", "client", name), rows))
        else:
            path.write_text("".join(json.dumps({"round": t, "client": c, name: v or None}) + "\n" for t, c, v in rows))

    write(rows)
    refused = CliRunner().invoke(simfl, ["audit", str(path)])
    assert refused.exit_code == 2 and refused.stdout == "" and refused.stderr.count("\n") == 1
    words = shlex.split(re.search(r"give (--where .*?), or --all-rows", refused.stderr)[1])
    column, _, value = words[1].partition("=")
    same(read(path, options=LogOptions(where={column: value})))
    assert CliRunner().invoke(simfl, ["audit", str(path), *words], catch_exceptions=False).exit_code == 0
    everybody = read(path, options=LogOptions(all_rows=True))
    assert everybody.matrix.toarray().all()
    write([(*row, yes) for row in ROWS])
    same(read(path))


def test_columns_that_say_nothing_of_who_took_part_are_named(tmp_path):
    path = tmp_path / "a.csv"
    rows = [(t, c, 0.1 * t, "phone", 1, "DE" if c < "c" else "FR", 26) for t, c in ROWS]
    path.write_text(text(("round", "client", "loss", "device_type", "ok", "country", "num_samples"), rows))
    log = read(path)
    same(log)
    assert log.unused == ("loss", "device_type", "ok", "country", "num_samples") and not log.varying


def test_several_phases_of_one_round_are_told_apart(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text(("round", "client", "part"), [(t, c, p) for t, c in ROWS for p in ("a", "b")]))
    with pytest.raises(SimflError, match=r"in this round already; .* give --where part=VALUE \(a, b\)"):
        read(path)


# -- what is no log, and what has two readings ---------------------------------------------------------

NONE = {
    "metrics.csv": "round,loss,accuracy\n1,2.1,0.3\n2,1.5,0.5\n",
    "metrics_only.csv": "loss,accuracy\n2.1,0\n0,0.5\n",
    "features.csv": "a,b,y\n0.1,0.2,0\n0.3,0.4,1\n",
    "latencies.csv": ",a,b,c\na,0,10,20\nb,10,0,30\nc,20,30,0\n",
    "nested.json": "[[[1, 2]], [[3, 4]]]",
    "prices.csv": "1.5,2.5\n3.5,4.5\n",
    "two_logs.csv": "round,client\n0,a\n0,b\nround,client\n0,a\n0,c\n",
    "total.csv": "round,client\n0,a\n0,b\nTotal,2\n",
    "counts.csv": "round,clients,loss\n0,10,2.1\n1,9,1.9\n",
    "links.csv": "src,dst,rtt_ms\ns,a,10\ns,b,20\n",
}


@pytest.mark.parametrize("name", NONE)
def test_tables_of_other_numbers_are_no_logs(tmp_path, name):
    (tmp_path / name).write_text(NONE[name])
    refused = CliRunner().invoke(simfl, ["audit", str(tmp_path / name)])
    assert refused.exit_code == 2 and refused.stdout == "" and refused.stderr.count("\n") == 1, refused.output


TWO = {
    "counted.csv": ("a,b\n1,0\n2,1\n", ["--form indexed", "--form matrix"]),
    "weights.csv": ("a,b,c\n12,0,3\n30,5,0\n7,0,1\n", ["--form indexed", "--form matrix"]),
    "lists.json": ("[[0, 1], [1, 0]]", ["--form lists"]),
    "values.json": ('[[0, "a"], [0, "b"], [1, "a"], [1, "c"]]', ["--form lists", "CSV"]),
    "weighted.json": ('[[0, "a", 3], [0, "b", 5], [1, "a", 3]]', ["--form lists"]),
    "rows.json": ("[[2, 7], [2, 5], [3, 5]]", ["--form lists"]),
    "clients.json": ('[["a", 0], ["b", 0], ["a", 1]]', ["--form lists"]),
    "samples.json": ("[[0, 1, 3], [0, 2, 5], [1, 2, 3]]", ["--form lists"]),
    "days.csv": ("round,client\n01/02/2026,a\n02/01/2026,b\n", ["2026-03-01"]),
}


@pytest.mark.parametrize("name", TWO)
def test_two_readings_with_two_answers_stop_with_what_to_type(tmp_path, name):
    words, choices = TWO[name]
    (tmp_path / name).write_text(words)
    refused = CliRunner().invoke(simfl, ["audit", str(tmp_path / name)])
    assert refused.exit_code == 2 and refused.stderr.count("\n") == 1
    for choice in choices:
        assert choice in refused.stderr
        if choice.startswith("--"):
            shown = CliRunner().invoke(simfl, ["audit", str(tmp_path / name), *choice.split()], catch_exceptions=False)
            assert shown.exit_code == 0, shown.output


def test_samples_that_change_give_both_answers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("round,client,num_samples\n1,a,10\n1,b,20\n2,a,20\n2,b,10\n")
    shown = CliRunner().invoke(simfl, ["audit", str(path)], catch_exceptions=False).stdout
    assert "num_samples changes within a client" in shown and "--columns weight=num_samples" in shown
    assert "2 exposed" in shown and "No client is exposed" in shown


# -- times ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("time", lambda s: s),
        ("time", lambda s: f"{s}.0"),
        ("time", lambda s: 1000 * s),
        ("time_ms", lambda s: 1000 * s),
        ("timestamp", lambda s: 10**6 * s),
        ("timestamp", lambda s: 10**9 * s),
        ("time", lambda s: pandas.Timestamp(s, unit="s").isoformat() + "Z"),
        ("datetime", lambda s: str(pandas.Timestamp(s, unit="s"))),
    ],
)
def test_times_are_seconds_whatever_their_unit(tmp_path, name, form):
    start = 1_767_225_600
    (tmp_path / "a.csv").write_text(text(("round", "client", name), [(t, c, form(start + 3600 * t)) for t, c in ROWS]))
    past = read_past(tmp_path / "a.csv")
    assert past.dated and past.times_s.tolist() == [start + 3600 * t for t in range(12)]


@pytest.mark.parametrize("value", ["inf", "1e30", "-5", "0001-01-01", "9999-12-20", "2500-01-01", "soon"])
def test_times_out_of_this_world_are_one_line(tmp_path, value):
    (tmp_path / "a.csv").write_text(f"round,client,time\n0,a,{value}\n0,b,{value}\n1,a,{value}\n")
    for command in ("audit", "forecast"):
        shown = CliRunner().invoke(simfl, [command, str(tmp_path / "a.csv")])
        assert shown.exit_code == (2 if command == "forecast" else 0) and "Traceback" not in shown.output, shown.output


def test_an_audit_begins_with_what_was_read(tmp_path):
    rows = [(t, c, f"2026-03-0{t % 9 + 1}T10:00:00Z") for t, c in ROWS if t < 9]
    (tmp_path / "a.csv").write_text(text(("server_round", "cid", "time"), rows))
    shown = CliRunner().invoke(simfl, ["audit", str(tmp_path / "a.csv")], catch_exceptions=False).stdout
    first = shown.splitlines()[0]
    assert first.startswith("Read: rounds 0 to 8") and "round = server_round, client = cid" in first
    assert "2026-03-01 10:00 to 2026-03-09 10:00 UTC" in first
    data = json.loads(CliRunner().invoke(simfl, ["audit", str(tmp_path / "a.csv"), "--json"]).stdout)
    assert data["read"][0] == first


def test_lines_of_a_console_are_no_log(tmp_path):
    lines = ["Starting Flower server, config: num_rounds=3", "[ROUND 1]", "configure_fit: sampled 3 clients (out of 5)"]
    (tmp_path / "flower.log").write_text("".join(f"INFO :      {line}\n" for line in lines))
    with pytest.raises(SimflError, match="flower.log:1: neither the columns round,client"):
        read(tmp_path / "flower.log")


def test_partitions_of_flower_are_clients(tmp_path):
    rows = [(t, NAMES.index(c), 100) for t, c in ROWS]
    (tmp_path / "flower.csv").write_text(text(("server_round", "partition_id", "num_examples"), rows))
    log = read(tmp_path / "flower.csv")
    assert (log.matrix.toarray() == TRUTH).all() and "client = partition_id" in log.words[0]


@pytest.mark.parametrize("cut", [1, 5, 11])
@pytest.mark.parametrize("numbers", [False, True])
def test_a_log_in_two_parts_is_one_log(cut, numbers, tmp_path):
    """The earlier part is another system's, whose columns and failures the options tell; names are in another order."""
    name = {each: str(100 + place) if numbers else each for place, each in enumerate(NAMES)}
    failed = [(DAYS[t], name[c], "late") for t, c in OUT if t < cut]
    before = [(DAYS[t], name[c], "ok") for t, c in ROWS if t < cut]
    (tmp_path / "old.csv").write_text(text(("when", "device", "status"), shuffled(before + failed)))
    rest = shuffled([(t, name[c]) for t, c in ROWS if t >= cut])
    (tmp_path / "new.csv").write_text(text(("round", "client"), rest))
    options = LogOptions({"round": "when", "client": "device"}, {"status": "ok"}, past=tmp_path / "old.csv")
    log = read(tmp_path / "new.csv", options=options)
    order = [log.clients.index(name[each]) for each in NAMES]
    np.testing.assert_array_equal(log.matrix.toarray()[:, order], TRUTH)
    assert read_past(tmp_path / "new.csv", options).rows.shape == TRUTH.shape
    said = ["--past", str(tmp_path / "old.csv"), "--columns", "round=when,client=device", "--where", "status=ok"]
    done = CliRunner().invoke(simfl, ["audit", str(tmp_path / "new.csv"), *said, "--json"], catch_exceptions=False)
    (tmp_path / "whole.csv").write_text(PLAIN)
    whole = CliRunner().invoke(simfl, ["audit", str(tmp_path / "whole.csv"), "--json"], catch_exceptions=False)
    parts, one = json.loads(done.stdout), json.loads(whole.stdout)
    for what in ("clients", "rounds", "rank", "strong", "semi_strong", "weak"):
        assert parts[what] == one[what], what


@pytest.mark.parametrize("old", ["numbers", "overlapping", "dates"])
def test_rounds_without_a_sum_are_the_same_in_two_parts(old, tmp_path):
    """Every fourth number is left out, as skipped rounds are; names of earlier rounds change nothing behind them."""
    rows = [(t, name) for t, name in ROWS if t % 4 != 3]
    name = {"numbers": lambda t: t, "overlapping": lambda t: t + 3, "dates": lambda t: DAYS[t]}[old]
    (tmp_path / "whole.csv").write_text(text(("round", "client"), rows))
    (tmp_path / "old.csv").write_text(text(("round", "client"), [(name(t), client) for t, client in rows if t < 6]))
    (tmp_path / "new.csv").write_text(text(("round", "client"), [row for row in rows if row[0] >= 6]))
    whole = read_past(tmp_path / "whole.csv").rows
    both = read_past(tmp_path / "new.csv", LogOptions(past=tmp_path / "old.csv")).rows
    skipped = (~both.any(axis=1)).sum()
    assert skipped == (~whole.any(axis=1)).sum() - (old == "dates")  # dates are not numbered
    assert len(both) == len(whole) - (old == "dates")


def test_times_and_bytes_of_two_parts_are_those_of_one_log(tmp_path):
    header = ("round", "client", "time", "bytes")
    rows = [(t, name, f"{DAYS[t]}T00:00Z", 100 + t) for t, name in ROWS]
    (tmp_path / "whole.csv").write_text(text(header, rows))
    (tmp_path / "old.csv").write_text(text(header, [row for row in rows if row[0] < 5]))
    (tmp_path / "new.csv").write_text(text(header, [row for row in rows if row[0] >= 5]))
    whole = read_past(tmp_path / "whole.csv")
    both = read_past(tmp_path / "new.csv", LogOptions(past=tmp_path / "old.csv"))
    assert both.dated and whole.dated
    np.testing.assert_array_equal(both.times_s, whole.times_s)
    np.testing.assert_array_equal(both.round_bytes, whole.round_bytes)


@pytest.mark.parametrize(("past", "why"), [
    (None, "is a folder"), ("new.csv", "is the log itself"), ("others", "names are compared as they are written"),
    ("weighted", "has weights and"),
])  # fmt: skip
def test_what_comes_after_no_log(past, why, tmp_path):
    (tmp_path / "new.csv").write_text(PLAIN)
    (tmp_path / "others").write_text(text(("round", "client"), [(t, f"dev-{name}") for t, name in ROWS]))
    (tmp_path / "weighted").write_text(text(("round", "client", "weight"), [(t, name, 3) for t, name in ROWS]))
    done = CliRunner().invoke(simfl, ["audit", str(tmp_path / "new.csv"), "--past", str(tmp_path / (past or ""))])
    assert done.exit_code == 2 and why in done.stderr and done.stderr.count("\n") == 1


def test_no_output_replaces_the_earlier_log(tmp_path):
    (tmp_path / "new.csv").write_text(PLAIN)
    (tmp_path / "old.csv").write_text(PLAIN)
    old = str(tmp_path / "old.csv")
    done = CliRunner().invoke(simfl, ["audit", str(tmp_path / "new.csv"), "--past", old, "--html", old])
    assert done.exit_code == 2 and "is the log itself" in done.stderr and (tmp_path / "old.csv").read_text() == PLAIN


FRAMES = {
    "named as usual": pandas.DataFrame(ROWS, columns=["round", "client"]),
    "likely": pandas.DataFrame(ROWS, columns=["server_round", "cid"]),
    "unlikely": pandas.DataFrame(ROWS, columns=["when", "who"]),
    "with digits": pandas.DataFrame(ROWS, columns=["col1", "col2"]),
    "numbered": pandas.DataFrame([(t, NAMES.index(c)) for t, c in ROWS]),
    "once each": pandas.DataFrame([(t, name, t / 10) for t, name in enumerate(NAMES)], columns=["t1", "who", "top5"]),
    "matrix": MATRIX,
    "matrix of days": MATRIX.set_axis(DAYS),
    "numbered matrix": pandas.DataFrame(TRUTH.astype(int)),
    "matrix of clients with numbers": MATRIX.rename(columns=lambda name: f"client {NAMES.index(name)}"),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("form", [pandas.DataFrame.to_json, lambda frame: json.dumps(frame.to_dict("list"))])
@pytest.mark.parametrize("chosen", [False, True])
def test_columns_in_json_are_the_same_log_or_refused_and_never_another_one(tmp_path, name, form, chosen):
    """Columns were taken for rounds, and their rows for clients, where none was called round or client."""
    frame = FRAMES[name]
    path = tmp_path / "log.json"
    path.write_text(form(frame))
    columns = dict(zip(("round", "client"), map(str, frame.columns))) if chosen and frame.shape[1] == 2 else {}
    try:
        log = read(path, columns=columns)
    except SimflError as error:
        assert "log.json" in str(error) and not (
            name in ("named as usual", "likely")
            or (columns and name != "numbered")  # its names are those of its first row
        )
    else:
        same(log)


@pytest.mark.parametrize(
    "log",
    [
        {"monday": {"ann": 1}, "tuesday": {"ann": 1}, "friday": {"ann": 1}},
        {"monday": {"ann": 1, "bob": 0}, "tuesday": {"ann": 1, "bob": 1}},
        {"client 0": [1, 0], "client 1": [0, 1]},
        {"col1": [0, 1, 2], "col2": ["ann", "bob", "eve"]},
        {"server_round": [0, 1], "x1": [2, 3]},
        {"round one": ["ann", "bob"], "round two": ["bob", "eve"]},
    ],
)
def test_what_may_be_rounds_or_columns_is_refused_and_read_if_said(tmp_path, log):
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.raises(
        SimflError, match="may have rounds and their clients, or columns and their rows; give --form lists"
    ):
        read(tmp_path / "log.json")
    assert read(tmp_path / "log.json", options=LogOptions(form="lists")).matrix.shape[0] == len(log)


@pytest.mark.parametrize(
    "log",
    [
        {"clients": [[1, ["ann", "bob"]], [2, ["bob", "eve"]]], "losses": [[1, 0.4], [2, 0.3]]},
        {"participants_per_round": [[1, ["ann", "bob"]], [2, ["bob", "eve"]]], "accuracy": [0.1, 0.2]},
        {"round one": ["ann", "bob"], "round two": ["bob", "eve", "cem"]},
        {"server_round": [1, 1, 2, 2], "cid": ["ann", "bob", "bob", "eve"], "top5_accuracy": [0.1, 0.2, 0.3, 0.4]},
    ],
)
def test_rounds_and_columns_that_cannot_be_taken_for_each_other_are_read(tmp_path, log):
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = read(tmp_path / "log.json")
    assert found.matrix.shape[0] == 2 and {"ann", "bob", "eve"} <= {str(client) for client in found.clients}
