"""Makes the helpers importable and fails early without a binary."""
import gc, os, pathlib, sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True


def pytest_sessionstart(session):
    import clients
    if not os.access(clients.BINARY, os.X_OK):
        pytest.exit(f"{clients.BINARY} is not there: run `make test-interop`, or set VIRTUALIZE_BIN", returncode=2)


def pytest_unconfigure(config):
    """Closes the sessions of remote file systems while the loops of fsspec and zarr-python still run; at exit they would print errors."""
    import asyncio

    from fsspec.asyn import AsyncFileSystem, get_loop, sync
    from zarr.core.sync import sync as sync_zarr
    kinds = [AsyncFileSystem]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
        kind.clear_instance_cache()
    gc.collect()
    sync(get_loop(), asyncio.sleep, 0.3)
    sync_zarr(asyncio.sleep(0.3))


@pytest.fixture(params=["kerchunk-json", "zarr3-json"])
def fmt(request):
    """The output format under test."""
    return request.param
