"""Makes the helpers importable and fails early without a binary."""
import os, pathlib, sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True


def pytest_sessionstart(session):
    import clients
    if not os.access(clients.BINARY, os.X_OK):
        pytest.exit(f"{clients.BINARY} is not there: run `make test-interop`, or set VIRTUALIZE_BIN", returncode=2)


@pytest.fixture(params=["kerchunk-json", "zarr3-json"])
def fmt(request):
    """The output format under test."""
    return request.param
