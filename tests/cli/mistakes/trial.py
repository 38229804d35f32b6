"""What a newcomer typed, or could have typed, with nothing but the README and the tour at hand."""

from tests.cli.mistakes import given, scripted, typed, written

LOG = "server_round,cid,uid\n1,a,x\n1,b,y\n"

MISTAKES = [
    # keys that are elsewhere, or are called otherwise elsewhere
    given("dropout=0.3", "dropout", "'devices.availability.dropout'"),
    given("devices.dropout=0.3", "devices.dropout", "'devices.availability.dropout'"),
    given("latency=0.1", "latency", "'network.latency_s'"),
    given("network.latency=0.1", "network.latency", "'latency_s'"),
    given("learning.lr=0.1", "learning.lr", "'training.learning_rate'"),
    given("learning.learning_rate=0.1", "learning.learning_rate", "'training.learning_rate'"),
    given("training.k=3", "training.k", "'selection.k'"),
    given("policy=random", "policy", "'selection'"),
    given("optimizer=adam", "optimizer", "'training.server_optimiser'"),
    given("fraction=0.1", "fraction", "'selection.k'"),
    given("beta=0.1", "beta", "'learning.partition=dirichlet:beta=...'"),
    given("learning.partition.alpha=0.3", "alpha", "'learning.partition=dirichlet:beta=...'"),
    given("epsilon=1", "epsilon", "privacy.stages=[central_gaussian]"),
    given("noise_multiplier=1", "noise_multiplier", "privacy.stages=[central_gaussian]"),
    # values in another program's way
    given("selection=batch_partition:4", "batch_partition:4", "'batch_partition:T=4'"),
    given("selection='batch_partition(T=4)'", "batch_partition(T=4)", "'batch_partition:T=4'"),
    given("selection='batch_partition(4)'", "batch_partition(4)", "'batch_partition:T=4'"),
    given("learning.data=fmnist", "fmnist", "'fashion_mnist'"),
    given("learning.data=my.csv", "my.csv", "'csv:path=my.csv'"),
    given("learning.model=mynets.Net", "mynets.Net", "'mynets:Net'"),
    given("training.rounds=5,selection=random", "rounds", "separated by spaces"),
    typed("run fl.yaml selection = random", "selection = random", "without spaces", "selection=random"),
    written("extends: fl.yaml\nlearning: {model: mynets.Net}\n", "mine.yaml:2", "mynets.Net", "'mynets:Net'"),
    # ranges and several values
    typed("sweep fl.yaml devices.availability.dropout=0..0.5", "0..0.5", "0:0.5:STEP"),
    typed("sweep fl.yaml devices.availability.dropout=0:0.5", "0:0.5", "0:0.5:STEP"),
    typed("sweep fl.yaml devices.availability.dropout=[0,0.2]", "2 values", "without brackets"),
    typed("compare fl.yaml selection=random batch_partition:T=4", "batch_partition:T=4", "separated by commas"),
    typed("search fl.yaml training.rounds=2..4 --maximise accuracy", "accuracy", "'test_accuracy'"),
    # commands, scenarios and folders
    typed("version", "version", "'--version'"),
    typed("help", "help", "'--help'"),
    typed("scenarios", "scenarios", "'list scenarios'"),
    typed("optimize fl.yaml", "optimize", "'search'"),
    typed("list datasets", "datasets", "'data'"),
    typed("show data fashion_mnist", "fashion_mnist", "quickstart learning.data=fashion_mnist"),
    typed("theory weighted", "weighted", "quickstart selection=weighted"),
    typed("report fl", "fl", "simfl ls results/fl"),
    typed("ls fl", "fl", "'results/fl'"),
    typed("run --verify fl", "fl", "simfl ls results/fl"),
    # logs
    typed("audit results/fl/DONE/rounds.csv", "client", "results/fl/DONE/participation.csv"),
    typed("audit log.csv", "--columns round=server_round,client=cid", log__csv=LOG),
    typed("audit log.csv --columns server_round,cid", "--columns round=server_round,client=cid", log__csv=LOG),
    typed("audit log.csv --columns server_round=round,cid=client", "--columns round=server_round,client=cid",
          log__csv=LOG),
]  # fmt: skip

SCRIPTS = [
    scripted("simfl.run(torch.nn.Linear(4, 2))", "Linear", "simfl.run('quickstart', {'learning.model': net})"),
    scripted("simfl.run('fashion_mnist')", "fashion_mnist", "learning.data=fashion_mnist"),
    scripted("simfl.run('fl.yaml', {'learning.model': torch.nn.Linear(64, 10)})", "[1, 8, 8]", "torch.nn.Flatten()"),
    scripted(
        "simfl.run('fl.yaml', {'learning.data': (np.ones((60, 4)), np.arange(60) % 2 + 1), "
        "'learning.model': torch.nn.Linear(4, 2)})",
        "[2, 2]", "counted from 0",
    ),
    scripted("simfl.run('fl.yaml', {'learning.data': pd.DataFrame({'x': [1.0], 'y': [0]})})", "label", "frame.drop"),
    scripted("simfl.open('fl')", "fl", "'results/fl'"),
]  # fmt: skip
