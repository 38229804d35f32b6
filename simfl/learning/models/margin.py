"""One output as the logits of two classes. Imported only where torch is."""

import torch


class Margin(torch.nn.Module):
    """Logits (..., 2) of margins (..., 1): 0 for the first class, the margin for the second."""

    def forward(self, margin: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(margin), margin], dim=-1)
