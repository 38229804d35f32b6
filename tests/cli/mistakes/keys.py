"""Misspelt keys and names, keys of other plugins and of other simulators, units and forms of values."""

from tests.cli.mistakes import given, written

REST = "clients: 12\nselection: {name: random, k: 4}\ntraining: {name: fedavg, rounds: 2}\n"

MISTAKES = [
    # misspelt
    given("client=20", "client", "clients"),
    given("training.round=5", "round", "rounds"),
    given("training.learningrate=0.1", "learningrate", "learning_rate"),
    given("selection=randon:k=4", "randon", "random"),
    given("selection.K=4", "K", "k"),
    given("selection=batch_partition:t=4", "t", "T"),
    given("selection=batch-partition:T=4", "batch-partition", "batch_partition"),
    given("selection=BatchPartition:T=4", "BatchPartition", "batch_partition"),
    given("training=fed_buff", "fed_buff", "fedbuff"),
    given("learning.model=MLP", "MLP", "mlp"),
    given("learning.data=fashionmnist", "fashionmnist", "fashion_mnist"),
    given("learning.data=FashionMNIST", "FashionMNIST", "fashion_mnist"),
    given("learning.data=cifar-10", "cifar-10", "cifar10"),
    given("learning.partition=non_iid", "non_iid", "dirichlet|known"),
    given("learning.partition=dirichlet:alpha=0.5", "alpha", "beta"),
    given("devices.availability=bernouli:dropout=0.2", "bernouli", "bernoulli"),
    given("network=start", "start", "star"),
    # elsewhere or of another plugin
    given("rounds=10", "rounds", "training.rounds"),
    given("dataset=mnist", "dataset", "learning.data"),
    given("latency_s=0.1", "latency_s", "network.latency_s"),
    given("training.concurrency=8", "concurrency", "fedavg", "fedbuff"),
    given(
        "'devices={availability: always}' devices.availability.dropout=0.2",
        "dropout",
        "devices.availability=bernoulli:dropout=0.2|bernoulli",
    ),
    given("training.mu=0.1", "mu", "client"),
    given("training.seed=3", "seed", "training.seed"),
    # of other simulators and libraries
    given("num_rounds=10", "num_rounds", "training.rounds"),
    given("num_clients=20", "num_clients", "clients"),
    given("fraction_fit=0.1", "fraction_fit", "selection.k"),
    given("num_supernodes=20", "num_supernodes", "clients"),
    given("training.lr=0.1", "lr", "learning_rate"),
    given("training.batch-size=32", "batch-size", "batch_size"),
    given("batch_size=32", "batch_size", "training.batch_size"),
    given("local_epochs=2", "local_epochs", "training.local_epochs"),
    given("training.epochs=2", "epochs", "local_epochs"),
    given("num_participants=4", "num_participants", "selection.k"),
    given("strategy=fedavg", "strategy", "training"),
    written(REST + "strategy: fedprox\n", "mine.yaml:4", "strategy", "training"),
    given("training=fedprox", "fedprox", "client"),
    given("training=fedadam", "fedadam", "server_optimiser"),
    given("training.optimizer=adam", "optimizer", "server_optimiser|optimiser"),
    given("privacy.epsilon=2", "epsilon", "stages|accountants|stage"),
    given("secagg=true", "secagg", "true", "plain|name"),
    given("random_seed=3", "random_seed", "seed"),
    given("topk=0.1", "topk", "'compression'"),
    given("quantization=8", "quantization", "'compression'"),
]
