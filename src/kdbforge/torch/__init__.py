"""Records the MIOpen problems of PyTorch programs, without a GPU and without computing.

import kdbforge.torch
with kdbforge.torch.record() as problems:
    model(torch.randn(8, 3, 224, 224, device="cuda")).sum().backward()
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from kdbforge.errors import HostError
from kdbforge.torch.recording import Recording

__all__ = ["Recording", "record"]


def record(*, nhwc: bool | None = None) -> AbstractContextManager[Recording]:
    """Record what PyTorch's ROCm build would ask MIOpen for inside the `with` block.

    Nothing inside is computed: tensors made there have a shape and a type but no data, whatever
    device they ask for. Models made before may be used; they are not changed, but for gradients
    without data. Reading a value (`.item()`, `if loss > 1`) is refused.

    Parameters
    ----------
    nhwc
        Whether the ROCm build hands channels_last tensors to MIOpen as NHWC. None: as the
        environment says, `PYTORCH_MIOPEN_SUGGEST_NHWC=1` for convolutions and
        `PYTORCH_MIOPEN_SUGGEST_NHWC_BATCHNORM=1` for batch normalisation, which is what the ROCm
        build itself asks.

    Raises
    ------
    HostError
        If PyTorch is not installed.
    UnsupportedError
        From the block: if it needs a value that was never computed.
    """
    try:
        from torch import nn  # noqa: F401, PLC0415
    except ImportError as error:
        raise HostError(
            f"PyTorch is not installed here: {error}",
            hint="pip install 'kdbforge[torch]'",
        ) from error
    from kdbforge.torch.session import recording  # noqa: PLC0415

    return recording(nhwc)
