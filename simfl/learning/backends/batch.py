"""The samples of a step, augmented where asked for. Imported only where torch is."""

import torch
from torch.nn.functional import pad


def take(x: torch.Tensor, chosen: torch.Tensor, versions: torch.Tensor | None, crop: int) -> torch.Tensor:
    """Samples ``chosen`` (n,) of ``x`` (all, *shape), in the versions drawn by ``simfl.learning.augment.Augment``."""
    batch = x.index_select(0, chosen)
    if versions is None:
        return batch
    height, width = x.shape[-2:]
    place, mirrored = versions // 2, (versions % 2).bool()
    column = torch.arange(width, device=x.device)
    rows = (place // (2 * crop + 1)).unsqueeze(1) + torch.arange(height, device=x.device)
    columns = (place % (2 * crop + 1)).unsqueeze(1) + torch.where(mirrored.unsqueeze(1), width - 1 - column, column)
    sample = torch.arange(len(batch), device=x.device).view(-1, 1, 1)
    cut = pad(batch, (crop, crop, crop, crop))[sample, :, rows.unsqueeze(2), columns.unsqueeze(1)]
    return cut.permute(0, 3, 1, 2)
