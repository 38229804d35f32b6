"""The Python API: wrong types, names of keywords, unknown columns."""

from tests.cli.mistakes import scripted

MISTAKES = [
    scripted("simfl.run(None)", "None", "path|file"),
    scripted("simfl.run(3)", "3|int", "path|file"),
    scripted("simfl.run({'clients': 12, 'k': 4})", "k", "selection: {name: batch_partition, k: 4}", "random"),
    scripted("simfl.run('fl.yml')", "fl.yml", "fl.yaml"),
    scripted("simfl.run('quikstart')", "quikstart", "quickstart"),
    scripted("simfl.run('fl.yaml', sed=3)", "sed", "seed"),
    scripted("simfl.run('fl.yaml', rounds=3)", "rounds", "training.rounds"),
    scripted("simfl.run('fl.yaml', {'training.learning_rate': 'fast'})", "learning_rate", "fast", "number"),
    scripted("simfl.run('fl.yaml', {'training': 3})", "training", "3", "name"),
    scripted("simfl.run('fl.yaml', {'seed': [0, 1]})", "seed", "whole number|sweep"),
    scripted("simfl.run('fl.yaml', {'selection.k': np.float64(0.3)})", "k", "0.3", "whole number"),
    scripted("simfl.run('fl.yaml', {'selection.k': np.array([4, 5])})", "k", "whole number|array|list"),
    scripted("simfl.run('fl.yaml', 'seed=3')", "seed=3", "['seed=3']|list"),
    scripted("simfl.run('fl.yaml', ['seed'])", "seed", "key=value|="),
    scripted("simfl.run('fl.yaml', {'learning.model': object()})", "object", "scenario|learning.model"),
    scripted("simfl.sweep('fl.yaml', {'selection': []})", "selection", "empty|no value"),
    scripted("simfl.sweep('fl.yaml', {'selection': ['randon']})", "randon", "random"),
    scripted("simfl.sweep('fl.yaml', {'seed': [0, 1]}, jobs=0)", "jobs", "1"),
    scripted("simfl.sweep('fl.yaml', {'seed': [0, 1]}, replication=2)", "replication", "unexpected|replications"),
    scripted(
        "simfl.compare('fl.yaml', {'selection': ['random', 'weighted']}, baseline='all')", "all", "random", "weighted"
    ),
    scripted("simfl.open('nowhere')", "nowhere", "no such|does not exist|not found"),
    scripted("simfl.open('fl.yaml')", "fl.yaml", "folder"),
    scripted("simfl.open(DONE).figure('acuracy')", "acuracy", "accuracy"),
    scripted("simfl.load('fl.yaml', sede=1)", "sede", "seed"),
    scripted("simfl.runn('fl.yaml')", "runn", "run"),
]
