#!/usr/bin/env bash
# Makes the Python environment of the benchmarks in target/benchmarks/env, from PyPI; does nothing when it is up to date.
# PYTHON is the Python of `make env` (3.12 or later), unless it is set.
set -euo pipefail
cd "$(dirname "$0")/.."
env=target/benchmarks/env
if cmp -s benchmarks/requirements.txt $env/requirements.txt; then exit; fi
rm -rf $env
"${PYTHON:-.env/bin/python}" -m venv $env
$env/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r benchmarks/requirements.txt
cp benchmarks/requirements.txt $env/
