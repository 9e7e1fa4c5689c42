"""Where and in which precision a model lives, from the user's words."""

import torch

from rpmodels import errors


def device_of(name: str | torch.device) -> torch.device:
    """The device by name: "auto" is CUDA where there is one, else the CPU; MPS only when named."""
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        float(torch.zeros(1, device=device))  # "meta" holds no numbers
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as failure:
        raise errors.bad_value(
            "device", "'auto', 'cpu', or a device of this machine", f"{name!r} ({failure})"
        ) from failure
    return device


def dtype_of(name: str | torch.dtype) -> torch.dtype:
    """float32 or float64."""
    known = {"float32": torch.float32, "float64": torch.float64}
    chosen = known.get(name) if isinstance(name, str) else name
    if chosen not in known.values():
        raise errors.bad_choice("dtype", known, name)
    assert chosen is not None
    return chosen
