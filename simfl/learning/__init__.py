"""Data sets, partitions, models and local training. torch is imported only when a learner is built."""
