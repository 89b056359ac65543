"""The torch.distributed backend "libucc": UCC's collectives on stock torch builds.

Importing this registers it, so that `torch.distributed.init_process_group("libucc")` works. The
extension beside this file is built by its Makefile.
"""

import atexit
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist

try:
    from . import _libucc  # type: ignore[attr-defined,unused-ignore]
except ImportError as error:
    raise ImportError(
        f"training.libucc: the compiled extension cannot be loaded ({error}); build it with "
        "'make -C workloads/training/libucc PREFIX=<this folder> UCC_HOME=<where UCC is>'."
    ) from error

NAME: Final = "libucc"


def create(store: Any, rank: int, size: int, timeout: timedelta, name: str = "") -> Any:
    """A team of `size` ranks that meet at `store`; unlike torch's groups, in any order."""
    return _libucc.Backend(store, rank, size, timeout, name)


def versions() -> dict[str, str]:
    """Versions of UCC and of the UCX it runs on, as found in this process."""
    _libucc.load()
    return {"ucc": _libucc.ucc_version(), "ucx": _libucc.ucx_version()}


def paths() -> dict[str, str]:
    """Files that UCC and UCX were loaded from."""
    _libucc.load()
    return {"ucc": _libucc.ucc_path(), "ucx": _libucc.ucx_path()}


def _create_for_torch(options: Any, _backend_options: Any) -> Any:
    # torch 2.6 passes a plain duration, newer ones a timedelta
    return create(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
    )


if NAME.upper() not in dist.Backend._plugins:
    dist.Backend.register_backend(NAME, _create_for_torch, extended_api=True, devices=["cpu"])
    # UCC's thread must be gone before the interpreter and UCX's own exit handlers are.
    atexit.register(_libucc.shut_down)
