"""Ways to compute local training: the scenario's choices, and their engines, which import torch."""
