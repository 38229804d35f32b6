"""Profiles of clients whose messages shared the server's link, from logs of worlds that are known."""

import numpy as np
import pytest
from click.testing import CliRunner

from simfl.cli import simfl
from simfl.deployment.remote.calibration import calibrate, calibrate_shared
from simfl.deployment.remote.job_times import JobTime, job_times_bytes
from simfl.devices.profiles import read_profiles
from simfl.network.shared_edges import ServerLink
from tests.support.shared_link import Way, ends_s

BYTES, SAMPLES = 20_000, 120
DOWN, UP = 4e5, 1.2e5
LINK = ServerLink(down_bytes_per_s=DOWN, up_bytes_per_s=UP)


def world(seed, clients=8, rounds=10, k=5, noise_s=0.0, link=LINK, widest=None):
    """Rounds of k clients; how long messages take on the link, a slow integrator says. True bandwidths, and the log."""
    rng = np.random.default_rng(seed)
    lines = {"down": rng.uniform(3e4, 2e5, clients), "up": rng.uniform(3e4, 1e5, clients)}
    if widest is not None:
        lines = {way: np.full(clients, widest) for way in lines}
    speeds, rows, now_s = rng.uniform(80, 400, clients), [], 1000.0

    def took_s(who, begins_s, way):
        limit, own = getattr(link, f"{way}_bytes_per_s"), lines[way][who]
        if limit is None:
            return BYTES / own
        ends = ends_s([Way(b, BYTES, rate, np.inf) for b, rate in zip(begins_s, own, strict=True)], limit)
        return np.array(ends) - begins_s + noise_s * rng.standard_normal(len(who))

    for t in range(rounds):
        who = np.sort(rng.choice(clients, k, replace=False))
        down_s = took_s(who, np.zeros(k), "down")
        work_s = SAMPLES / speeds[who] * np.exp(0.1 * rng.standard_normal(k))
        up_s = took_s(who, down_s + work_s, "up")
        for place, client in enumerate(who.tolist()):
            times_s = [seconds[place] for seconds in (down_s, work_s, up_s)]
            rows.append(JobTime(t * k + place, client, t, SAMPLES, BYTES, BYTES, now_s, now_s, *times_s,
                                now_s + sum(times_s)))  # fmt: skip
        now_s += float((down_s + work_s + up_s).max()) + 0.05
    return lines, rows


def errors(found, lines, way):
    """Relative errors of those that are known from above, and of all."""
    name = f"{way}_bytes_per_s"
    off = {fit.client: fit.columns[name].value / lines[way][fit.client] - 1 for fit in found.clients}
    return [error for client, error in off.items() if client not in found.behind.get(name, ())], list(off.values())


@pytest.mark.parametrize("noise_s", [0.0, 0.005])
@pytest.mark.parametrize("seed", range(6))
def test_lines_wider_than_the_link_are_never_known_from_above(seed, noise_s):
    _, rows = world(seed, noise_s=noise_s, widest=1e7)
    found = calibrate_shared(rows, LINK)
    for name, limit in (("down_bytes_per_s", DOWN), ("up_bytes_per_s", UP)):
        assert set(found.behind[name]) == {fit.client for fit in found.clients}
        assert all(np.isinf(fit.columns[name].high) and fit.columns[name].value < 2 * limit for fit in found.clients)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lines_are_found_behind_a_link_that_holds_their_messages_up(seed):
    lines, rows = world(seed)
    found = calibrate_shared(rows, LINK)
    for way in ("down", "up"):
        known, every = errors(found, lines, way)
        assert np.abs(known).max(initial=0) < 0.01 and max(every) < 0.01, "what is not known is known from below"
    assert len(errors(found, lines, "up")[0]) >= 2
    ignorant = np.array([fit.columns["up_bytes_per_s"].value for fit in calibrate(rows).clients])
    assert (ignorant / lines["up"] < 0.85).sum() >= 3, "the link is felt"


def test_errors_of_the_clock_stay_errors_of_their_size():
    lines, rows = world(3, rounds=40, noise_s=0.01)
    known, _ = errors(calibrate_shared(rows, LINK), lines, "up")
    assert len(known) >= 3 and np.abs(known).max() < 0.06


def test_a_line_that_is_never_the_narrower_is_named_and_has_no_upper_end():
    narrow = ServerLink(up_bytes_per_s=5e4)
    lines, rows = world(4, link=narrow)
    found = calibrate_shared(rows, narrow)
    assert "down_bytes_per_s" not in found.behind and len(found.behind["up_bytes_per_s"]) >= 5
    for fit in found.clients:
        behind = fit.client in found.behind["up_bytes_per_s"]
        assert (fit.columns["up_bytes_per_s"].high == np.inf) == behind
    assert any("up_bytes_per_s of " in text and "from the server's own" in text for text in found.unresolved)


def test_no_link_and_one_that_nobody_fills_change_nothing():
    lines, rows = world(5, link=ServerLink())
    alone = calibrate(rows)
    assert calibrate_shared(rows, ServerLink()).clients == alone.clients
    wide = calibrate_shared(rows, ServerLink(down_bytes_per_s=1e9, up_bytes_per_s=1e9))
    assert wide.clients == alone.clients and wide.behind == {"down_bytes_per_s": (), "up_bytes_per_s": ()}


def test_the_command_is_told_of_the_link(tmp_path):
    lines, rows = world(0)
    log, out = tmp_path / "log.csv", tmp_path / "devices.csv"
    log.write_bytes(job_times_bytes(rows))
    options = ["-o", str(out), "--server-down", str(DOWN), "--server-up", str(UP)]
    shown = CliRunner().invoke(simfl, ["serve", "calibrate", str(log), *options])
    assert shown.exit_code == 0 and "from the server's own" in shown.stdout
    expected = {fit.client: fit.columns["up_bytes_per_s"].value for fit in calibrate_shared(rows, LINK).clients}
    table = read_profiles(out)
    assert dict(zip(table.clients.tolist(), table.columns["up_bytes_per_s"].tolist())) == pytest.approx(expected, 1e-3)
    refused = CliRunner().invoke(simfl, ["serve", "calibrate", str(log), "--server-up", "0"])
    assert refused.exit_code == 2 and "--server-up" in refused.output
