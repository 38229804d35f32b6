"""The message-level trace as a Chrome/Perfetto timeline: one track an agent.

Format: the Trace Event Format's complete ("X") and metadata ("M") events, times in microseconds.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simfl.disk import write_atomically
from simfl.types import SERVER

__all__ = ["timeline", "write_timeline"]


def write_timeline(events: Path, target: Path, names: tuple[str, ...] | None = None) -> None:
    """Writes the timeline of an ``events.jsonl`` to ``target``, a file that Perfetto's viewer opens.

    Args:
        events: the message-level trace.
        target: the JSON file to write.
        names: the clients' names; None numbers them.
    """
    with open(events, encoding="utf-8") as lines:
        spans = list(timeline(json.loads(line) for line in lines))
    tracks = sorted({span["tid"] for span in spans})
    labels = [
        {"ph": "M", "pid": 0, "tid": track, "name": "thread_name", "args": {"name": _agent(track - 1, names)}}
        for track in tracks
    ]
    document = {"traceEvents": [*labels, *spans], "displayTimeUnit": "ms"}
    write_atomically(target, json.dumps(document, separators=(",", ":")).encode())


def _agent(address: int, names: tuple[str, ...] | None) -> str:
    if address == SERVER:
        return "server"
    return names[address] if names else f"client {address}"


def timeline(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Spans of download, compute, upload and wait on the clients' tracks, and of rounds on the server's."""
    waiting: dict[int, float] = {}
    begin = 0.0
    for event in events:
        match event["event"]:
            case "round_start":
                begin = event["time_s"]
            case "message":
                span, agent = {
                    "model": ("download", event["to"]),
                    "announcement": ("announcement", event["to"]),
                    "update": ("upload", event["from"]),
                    "failure": ("connection lost", event["from"]),
                }[event["kind"]]
                yield _span(span, agent, event["sent_s"], event["arrives_s"], bytes=event["bytes"])
                if event["kind"] in ("update", "failure"):
                    waiting[agent] = event["arrives_s"]
            case "compute":
                name = "compute" if event["completed"] else "compute (fails)"
                yield _span(name, event["client"], event["start_s"], event["end_s"], job=event["job"])
            case "cancel":
                waiting.pop(event["client"], None)
                yield _span("cancelled", event["client"], event["time_s"], event["time_s"])
            case "round_end":
                end = event["time_s"]
                name = f"round {event['round']}"
                yield _span(name, SERVER, begin, end, aggregated=event["cardinality"])
                for agent, since in waiting.items():
                    if since < end:
                        yield _span("wait", agent, since, end)
                waiting.clear()


def _span(name: str, agent: int, start_s: float, end_s: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": 0, "tid": agent + 1, "name": name, "ts": start_s * 1e6, "dur": (end_s - start_s) * 1e6,
            "args": args}  # fmt: skip
