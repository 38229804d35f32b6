"""Mistakes with calibrate, forecast, search, ranges, shared networks, compression, profiles, quorums and guards."""

from tests.cli.mistakes import given, scripted, typed, written

LOG = "round,client\n0,ann\n0,bob\n1,bob\n1,eve\n2,ann\n2,eve\n"
TIMES = (
    "client,round,samples,down_bytes,up_bytes,download_s,work_s,upload_s\n0,0,100,1000,1000,0.1,1.0,0.1\n"
    "0,1,100,1000,1000,0.1,1.1,0.1\n"
)
PHONES = "device,samples_per_s\nold,30\nnew,200\n"
SMALL = "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2}\n"
GUARDED = (
    "clients: 12\nselection: {name: guarded, inner: {name: random, k: 4}, T: 4}\ntraining: {name: fedavg, rounds: 2}\n"
)

MISTAKES = [
    # overrides and lists
    given("alpha=0.1", "alpha", "'learning.partition=dirichlet:beta=...' or 'training=fedasync:"),
    typed("validate fl.yaml selection = random", "selection = random", "without spaces", "selection=random"),
    typed("show fl.yaml selection = random", "selection = random", "without spaces", "selection=random"),
    typed("sweep fl.yaml selection = random,weighted", "selection = random,weighted", "without spaces"),
    # ranges of a sweep
    typed("sweep fl.yaml selection.k=4:12", "4:12", "4:12:STEP"),
    typed("sweep fl.yaml selection.k=4-12", "4-12", "whole number|4:12:STEP"),
    typed("sweep fl.yaml selection.k=range(4,12)", "range(4,12)", "4:12:"),
    typed("sweep fl.yaml devices.availability.dropout=0:0.5:0", "step", "0"),
    typed("sweep fl.yaml devices.availability.dropout=0.5:0:0.1", "0.5:0:0.1", "-0.1"),
    typed("sweep fl.yaml training.learning_rate=log:0:1:4", "log:0:1:4", "greater|positive|above"),
    typed("sweep fl.yaml training.learning_rate=log:0.001:1", "log:0.001:1", "log:0.001:1:COUNT"),
    typed("sweep fl.yaml selection.k=4,8 training.rounds=2,3,4 --zip selection.k,training.rounds", "zip", "2", "3"),
    typed("sweep fl.yaml selection.k=4,8 --zip selection.k,training.round", "training.round", "selection.k"),
    typed("sweep fl.yaml selection.k=4,8 --case training.rounds=3", "--case", "NAME:|name: |'NAME: KEY=VALUE'"),
    typed("run fl.yaml selection.k=4:12:4", "4:12:4", "sweep"),
    # search
    typed("search fl.yaml selection.k=2:8 --maximise test_accuracy", "2:8", "2..8"),
    typed("search fl.yaml selection.k=2..8", "--maximise"),
    typed("search fl.yaml selection.k=8..2 --maximise test_accuracy", "8..2", "2..8"),
    typed("search fl.yaml seed=0..5 --maximise test_accuracy", "seed", "compare|replications|luckiest"),
    typed("search fl.yaml selection.k=2..8 --maximise test_accuracy --require privacy_weak=4", "privacy_weak=4", ">="),
    typed("search fl.yaml selection.k=2..8 --maximise test_accuracy --require weak>=4", "weak", "privacy_weak"),
    typed("search fl.yaml --maximise test_accuracy", "key=|KEY=|range"),
    typed("search fl.yaml selection.k=2..8 --maximise test_accuracy --trials 5", "--trials", "--runs"),
    typed("sweep fl.yaml selection.k=2,4 --trials 3", "--trials", "--replications"),
    typed("forecast log.csv --workers 2", "--workers", "--processes"),
    # calibrate and profiles
    typed("calibrate", "LOG"),
    typed("serve calibrate times.csv --confidence 95", "--confidence", "95", "0<x<1|0.95", times__csv=TIMES),
    typed("serve calibrate times.csv -o nowhere/d.csv", "nowhere", "no folder", times__csv=TIMES),
    typed("serve calibrate nowhere.csv -o d.csv", "nowhere.csv", "no such|does not exist|not found"),
    typed("serve calibrate log.csv -o d.csv", "log.csv", "samples|work_s|job_times", log__csv=LOG),
    typed("serve calibrate results/fl/DONE -o d.csv", "DONE", "job_times.csv"),
    given("devices.profile=phones.csv", "devices.profile", "profiles"),
    given("devices.profiles=phones.csv", "phones.csv", "is no file|no such"),
    typed("validate fl.yaml devices.profiles=p.csv", "p.csv", "samples_per_second", "samples_per_s",
          p__csv=PHONES.replace("per_s", "per_second")),
    typed("validate fl.yaml devices.profiles=p.csv", "p.csv:2", "samples_per_s", p__csv=PHONES.replace("30", "fast")),
    # forecast and audit --follow
    typed("forecast log.csv --against batch-partition:T=2", "batch-partition", "batch_partition", log__csv=LOG),
    typed("forecast log.csv --against T=2", "T=2", "one of", "batch_partition", log__csv=LOG),
    typed("forecast log.csv --horizon 30days", "30days", "30d", log__csv=LOG),
    typed("forecast log.csv --horizon 30d", "horizon", "no dates", "number of rounds", log__csv=LOG),
    typed("forecast log.csv --futures 0", "--futures", "0", "x>=2", log__csv=LOG),
    typed("forecast log.csv --policies random", "--policies", "--policy|--against", log__csv=LOG),
    typed("forecast fl.yaml", "fl.yaml", "log|csv"),
    typed("forecast results/fl/OPEN", "OPEN", "no finished run"),
    typed("audit log.csv --floor 3", "--floor", "--follow", log__csv=LOG),
    typed("audit log.csv --floor 3 --follow", "--floor", "semi_strong=3|NOTION=", log__csv=LOG),
    typed("audit log.csv --floor semi-strong=3 --follow", "semi-strong", "semi_strong", log__csv=LOG),
    typed("audit log.csv --colluder zoe", "zoe", "ann", log__csv=LOG),
    typed("audit log.csv --colluders ann", "--colluders", "ann", "--colluder", log__csv=LOG),
    # shared networks
    given("network.server=1e8", "server", "down_bytes_per_s|up_bytes_per_s"),
    given("network.server.bandwidth_bytes_per_s=1e8", "bandwidth_bytes_per_s", "down_bytes_per_s|up_bytes_per_s"),
    given("network.server.down_bytes_per_s=0", "down_bytes_per_s", "0", "null|greater|above"),
    given("network.server.down_bytes_per_s=1Gbit", "down_bytes_per_s", "1Gbit", "number"),
    given("server.down_bytes_per_s=1e8", "server", "'network.server"),
    # compression
    given("compression=topk:share=0.1", "topk", "'top_k'"),
    given("compression=top_k:k=10", "k", "share"),
    given("compression=top_k:share=10", "share", "10", "1"),
    given("compression=top_k", "share"),
    given("compression=quantise:bits=1", "bits", "1", "2"),
    given("compression=quantize:bits=4", "quantize", "'quantise'"),
    given("compression=qsgd:bits=4", "qsgd", "'quantise'"),
    given("training.compression=top_k:share=0.1", "training.compression", "'compression'"),
    given("compression=top_k:share=0.1 secagg=secagg", "top_k", "secagg", "random_k"),
    # quorums and guards
    given("training.quorum=9", "quorum", "9", "4"),
    given("training.quorum=1.5", "quorum", "1.5", "1"),
    given("training.quorum=80%", "quorum", "80%", "0.8"),
    given("quorum=3", "quorum", "'training.quorum'"),
    given("training=fedbuff:concurrency=8,buffer=4,quorum=3", "quorum", "fedbuff"),
    given("selection=guarded:T=4", "inner"),
    given("selection=guarded:T=4,inner=random", "inner", "k"),
    written(GUARDED.replace("T: 4", "T: 5"), "T", "5", "12", "divide|multiple|split"),
    written(GUARDED.replace("T: 4", "T: 6, notion: weak"), "weak", "6", "4"),
    written(GUARDED.replace("T: 4", "T: 4, notion: strong"), "strong", "semi_strong"),
    written(GUARDED.replace("fedavg, rounds: 2", "fedbuff, rounds: 2, concurrency: 8, buffer: 4"), "fedbuff"),
    written(GUARDED.replace("inner: {name: random, k: 4}", "k: 4"), "inner"),
]  # fmt: skip

SCRIPTS = [
    scripted("simfl.search('fl.yaml', {'selection.k': '2..8'})", "maximise"),
    scripted("simfl.forecast('nowhere.csv')", "nowhere.csv", "no such|does not exist|not found"),
    scripted(
        "simfl.forecast(pd.DataFrame({'server_round': [0], 'cid': ['a'], 'uid': ['b']}))",
        "columns",
        "server_round",
        "cid",
    ),
]
