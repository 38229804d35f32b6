"""The audit's clients in natural order, and its page's headings above their columns."""

import pytest

from simfl.deployment.audit import audit, read
from simfl.deployment.audit.page import page
from tests.support.chromium import chromium, executable


def log_of(tmp_path, clients):
    path = tmp_path / "log.csv"
    lines = [f"{t},{client}\n" for t in range(len(clients)) for client in clients[: t + 1]]
    path.write_text("round,client\n" + "".join(lines))
    return read(path)


def test_numbers_in_names_count_by_their_size(tmp_path):
    log = log_of(tmp_path, ["phone-10", "phone-2", "b", "phone-1", "a3x", "a12"])
    assert list(log.clients) == ["a3x", "a12", "b", "phone-1", "phone-2", "phone-10"]
    matrix = log.matrix.toarray()
    assert matrix[:, 5].all() and matrix[:, 4].sum() == 5, "phone-10 was in every round, phone-2 in all but one"


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("width", [360, 400, 1280])
def test_headings_stand_above_their_columns(tmp_path, width):
    log = log_of(tmp_path, [f"phone-{i}" for i in range(1, 12)])
    (tmp_path / "page.html").write_text(page(audit(log.matrix, log.rounds, log.clients), "log"))
    with chromium() as window:
        window.open(f"file://{tmp_path}/page.html", width, 900)
        edges = window.js("""[...document.querySelectorAll('table')].map(table => {
            const edge = (cell) => {
                const range = document.createRange();
                range.selectNodeContents(cell);
                const box = range.getBoundingClientRect();
                return cell.classList.contains('n') ? box.right : box.left;
            };
            return [[...table.tHead.rows[0].cells].map(edge), [...table.tBodies[0].rows[0].cells].map(edge)];
        })""")
        assert len(edges) == 2
        for heads, cells in edges:
            assert heads == pytest.approx(cells, abs=1)
        assert window.js("document.documentElement.scrollWidth") == width
        first = window.js("[...document.querySelectorAll('#exposed td:first-child')].map(cell => cell.innerText)")
        assert first == sorted(first, key=lambda name: int(name.removeprefix("phone-")))
