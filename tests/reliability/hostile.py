"""Bar 5: hostile input is refused quickly, in little memory, and writes nothing outside."""

import numpy as np

from simfl.deployment.remote.job_server import serve_jobs
from simfl.deployment.remote.jobs import RemoteJobs
from simfl.results.client_updates import UpdateStore
from tests.reliability.check import Case, Check, Outcome, Plan, when
from tests.reliability.measured import measured
from tests.reliability.tested import tested
from tests.remote.test_serving import JOB, OTHERS, TOKEN, D, http, malformed, npy_bytes, raw
from tests.scenario.test_reader import BOMB

MOST_S, MOST_MB = 1.0, 200.0
START = "name: h\nclients: 4\nselection: {name: random, k: 2}\ntraining: {name: fedavg, rounds: 2}\nlearning: none\n"
GRAPH = "network: {name: file, path: %s}\n"
ENTITIES = b'<!DOCTYPE x [<!ENTITY a "ha">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 9) for i in range(20)
) + b"]><graphml>&u;</graphml>"  # fmt: skip
HOSTILE: dict[str, tuple[str | bytes, dict[str, bytes]]] = {
    "a bomb of aliases": (BOMB, {}),
    "3,000-deep nesting": ("name: " + "[" * 3000 + "]" * 3000, {}),
    "3,000-deep blocks": ("".join(" " * n + "a:\n" for n in range(1000)), {}),
    "an alias of itself": ("a: &a [*a]\n" + START, {}),
    "a tag that builds objects": ("name: !!python/object/apply:os.system ['touch canary']\n" + START[8:], {}),
    "a tag that imports": ("name: !!python/name:os.system\n" + START[8:], {}),
    "not a number": (START + "seed: .nan\n", {}),
    "infinite": (START.replace("rounds: 2", "rounds: 2, deadline_s: .inf"), {}),
    "1e400": (START.replace("rounds: 2", "rounds: 2, deadline_s: 1e400"), {}),
    "a number of 900,000 digits": (START + "seed: " + "9" * 900_000, {}),
    "10^12 clients": (START.replace("clients: 4", "clients: 1000000000000"), {}),
    "10^30 rounds": (START.replace("rounds: 2", "rounds: 1" + "0" * 30), {}),
    "a name above the root": (START.replace("name: h", "name: ../../outside"), {}),
    "a name that is a path": (START.replace("name: h", "name: /tmp/outside"), {}),
    "a name that is the root": (START.replace("name: h", "name: .."), {}),
    "a name of control characters": (START.replace("name: h", 'name: "\\e[31mx"'), {}),
    "a megabyte more than a scenario": (START + "#" * 1_000_001, {}),
    "bytes that are no text": (b"\xff\xfe" + START.encode("utf-16-le") + b"\xff", {}),
    "a null character": (START.encode() + b"\x00", {}),
    "entities in a graph": (START + GRAPH % "g.graphml", {"g.graphml": ENTITIES}),
    "a graph's external entity": (START + GRAPH % "g.graphml", {"g.graphml": b'<!DOCTYPE x [<!ENTITY f SYSTEM '
                                  b'"file:///etc/passwd">]><graphml>&f;</graphml>'}),
    "a graph that is none": (START + GRAPH % "g.gexf", {"g.gexf": b"\x00" * 10_000}),
    "a network with a delay of nan": (START + GRAPH % "g.csv", {"g.csv": b"src,dst,rtt_ms\na,b,nan\n"}),
    "a network that is a folder": (START + GRAPH % ".", {}),
    "a network that never ends": (START + GRAPH % "/dev/zero", {}),
    "extends itself": ("extends: h.yaml\n" + START, {}),
    "a plugin that is no Python": (START + "plugins: [p.py]\n", {"p.py": b"\x00\xff not python"}),
    "a plugin that is a folder": (START + "plugins: [.]\n", {}),
}  # fmt: skip


def files(plan: Plan) -> Case:
    """``simfl run`` of a hostile file, beside the program's start with all its plugins."""
    (plan.scratch / "good.yaml").write_text(START)
    idle = max(measured(plan.scratch, "validate", "good.yaml").processor_s for _ in range(2))

    def case(number: int) -> Outcome:
        name, (text, others) = list(HOSTILE.items())[number % len(HOSTILE)]
        folder = plan.scratch / str(number) / "here"
        folder.mkdir(parents=True)
        (folder / "h.yaml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        for other, content in others.items():
            (folder / other).write_bytes(content)
        before = sorted(folder.parent.rglob("*"))
        code, said, spent, peak = measured(folder, "run", "h.yaml", "--out", "results")
        after = sorted(folder.parent.rglob("*"))
        wrong = when(code != 2, f"{name}: exit {code}")
        wrong += when("Traceback" in said or not said.strip(), f"{name}: {said[-300:]!r}")
        wrong += when(spent - idle > MOST_S or peak > MOST_MB, f"{name}: {spent - idle:.1f} s, {peak:.0f} MB")
        wrong += [f"{name}: wrote {path}" for path in after if path not in before]
        return Outcome(tuple(wrong))

    return case


def requests(plan: Plan) -> Case:
    """A hundred malformed requests to a server of its own, which then still takes an update."""

    def case(number: int) -> Outcome:
        jobs = RemoteJobs((3, 5), UpdateStore(plan.scratch / str(number)), TOKEN, 0.2, {"name": "x"})
        jobs.request([JOB, OTHERS])
        rng, wrong, answers = np.random.default_rng([plan.seed, number]), [], {}
        with serve_jobs(jobs) as found:
            address = found.removeprefix("http://")
            mine = http(address, "POST", "/clients", body=b'{"slot": 3}')[1]["token"]
            for _ in range(100):
                request = malformed(rng, mine)
                status = raw(address, request)
                if not isinstance(status, int) or not 400 <= status < 500:
                    wrong.append(f"{request!r}: {status!r}")
                answers[f"answers {status}"] = answers.get(f"answers {status}", 0) + 1
            if len(jobs.updates):
                wrong.append("an update was kept")
            sent = http(address, "PUT", "/updates/7?loss=1", mine, npy_bytes(np.ones(D, dtype=np.float32)))[0]
            wrong += when(sent != 201, f"afterwards a good update is answered {sent}")
        return Outcome(tuple(wrong), {"requests": 100, **answers})

    return case


CHECKS = (
    Check(5, "hostile", "simfl run of bombs, deep nesting, tags, NaN, 10^12 clients, names out of the root, endless "
          "files; exit 2, in 1 s more than the start and 200 MB, nothing written",
          "files", (1, len(HOSTILE), 3 * len(HOSTILE)), files),
    Check(5, "requests", "random malformed requests to simfl serve; 4xx each, nothing kept, and it goes on working",
          "requests", (100, 1_000, 20_000), requests),
    tested(5, "hostile-tests", "data and networks that promise terabytes or are cut; links in a results folder",
           "learning/test_data_limits.py", "network/test_file.py::test_broken_and_hostile_files_name_file_and_line",
           "core/test_disk.py::test_links_in_a_results_folder_are_not_followed",
           "core/test_disk.py::test_a_folder_that_is_a_link_is_refused_not_emptied",
           nightly=("learning/test_data_fuzz.py", "network/test_file.py", "scenario/test_reader.py",
                    "core/test_disk.py")),
)  # fmt: skip
