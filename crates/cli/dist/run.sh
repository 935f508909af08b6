#!/usr/bin/env bash
# Builds what a release contains in target/dist, in an environment of its own, and tests it: run.sh [--image] [TARGET …]
# --image builds the container image only, without tests.
set -euo pipefail
cd "$(dirname "$0")/../../.."
env=target/dist-env
.env/bin/python -m venv $env
$env/bin/python -m pip install --quiet --disable-pip-version-check -r crates/cli/dist/requirements.txt
$env/bin/python crates/cli/dist/dist.py "$@"
[ "${1:-}" = --image ] || $env/bin/python -m pytest -q -p no:cacheprovider crates/cli/dist
