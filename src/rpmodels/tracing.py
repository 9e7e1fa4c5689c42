"""Programs that are written down once and run elsewhere: in them nothing may depend on values."""

import torch


def recording() -> bool:
    """Whether a program is being written down (torch.export): then short cuts that ask for values are not taken."""
    return bool(torch.compiler.is_compiling())
