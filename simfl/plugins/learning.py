"""Data, partitions, transforms, models, backends, and whole ways of learning."""

from simfl.learning.backends.base import BACKENDS, Backend, Engine, Sgd, TrainingTask
from simfl.learning.base import LEARNING, Learner, Learning
from simfl.learning.data.base import DATA, Data, Dataset, Outline
from simfl.learning.models.base import MODELS, Model
from simfl.learning.models.conv import MultiroundCifar
from simfl.learning.none import IdleLearner
from simfl.learning.partitions.base import PARTITIONS, Iid, Partition, Split
from simfl.learning.torchvision_import import torchvision
from simfl.learning.transforms.base import TRANSFORMS, Transform
from simfl.learning.work import Work

__all__ = [
    "BACKENDS", "Backend", "DATA", "Data", "Dataset", "Engine", "IdleLearner", "Iid", "LEARNING", "Learner",
    "Learning", "MODELS", "Model", "MultiroundCifar", "Outline", "PARTITIONS", "Partition", "Sgd", "Split",
    "TRANSFORMS", "TrainingTask", "Transform", "Work", "torchvision",
]  # fmt: skip
