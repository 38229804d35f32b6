"""Overrides, each with the exact end of its line; tested by ``tests/scenario/test_typical_mistakes.py``."""

MISTAKES = {
    # a key of another plugin of the family
    "devices.availability.dropout=0.2": "did you mean 'devices.availability=bernoulli:dropout=...'?",
    "selection.T=4": "did you mean 'selection=batch_partition:T=...'?",
    "training.buffer=4": "did you mean 'training=fedbuff:buffer=...'?",
    "learning.partition.beta=0.1": "did you mean 'learning.partition=dirichlet:beta=...'?",
    # a key of a section, at the top
    "dropout=0.2": "did you mean 'devices.availability=bernoulli:dropout=...'?",
    "latency=0.1": "did you mean 'network.latency_s'?",
    "rounds=5": "did you mean 'training.rounds'?",
    "k=4": "did you mean 'selection.k'?",
    "T=4": "did you mean 'selection=batch_partition:T=...'?",
    "lr=0.1": "did you mean 'training.learning_rate'?",
    "batch_size=8": "did you mean 'training.batch_size'?",
    "model=mlp": "did you mean 'learning.model'?",
    "data=digits": "did you mean 'learning.data'?",
    "buffer=8": "did you mean 'training=fedbuff:buffer=...'?",
    "selction=random": "did you mean 'selection'?",
    "sede=3": "did you mean 'seed'?",
    # names
    "learning.model=resnet18": "did you mean 'resnet18_",
    "selection=half": "did you mean 'half_partition'?",
    "selection=Random": "did you mean 'random'?",
    "training=FedAvg": "did you mean 'fedavg'?",
    "secagg=secaggplus": "did you mean 'secagg_plus'?",
    "learning.data=mnsit": "did you mean 'mnist'?",
    # values
    "training.learning_rate=nan": "it must be finite",
    "training.learning_rate=inf": "it must be finite",
    "training.learning_rate='0.1'": "remove the quotes",
    "devices.availability=bernoulli:dropout=20%": "write 0.2",
    "network.latency_s=100ms": "write 0.1",
    "training.rounds=1e3": "the nearest valid value is 1000",
    "training.rounds=0": "the nearest valid value is 1",
    "selection.k=4.0": "the nearest valid value is 4",
    "extends=quickstart": "'extends' stands in files only",
    # several values where one stands
    "training.rounds=1:3:1": "simfl sweep and simfl compare take several values",
    "selection=random,weighted": "simfl sweep and simfl compare take several values",
    "selection.k=4;8": "simfl sweep and simfl compare take several values",
    "training.rounds=10,20": "simfl sweep and simfl compare take several values",
}
