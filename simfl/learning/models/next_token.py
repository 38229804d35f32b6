"""The recurrent network of char_lstm, as a module. Imported only where torch is."""

import torch
from torch import nn


class NextToken(nn.Module):
    """From tokens (n, length), int64 of 0 .. ``classes`` - 1, to the logits of the next one, (n, classes)."""

    def __init__(self, classes: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.output = nn.Linear(hidden, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):  # processors without AVX-512 have no bfloat16 LSTM
            states, _ = self.lstm(self.embedding(tokens))
        logits: torch.Tensor = self.output(states[:, -1])
        return logits
