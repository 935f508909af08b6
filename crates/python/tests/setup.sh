#!/usr/bin/env bash
# Installs a wheel into a fresh environment, target/python, that also sees the clients of .env/.
set -euo pipefail
cd "$(dirname "$0")/../../.."
wheel=$1
env=target/python
rm -rf "$env"
.env/bin/python -m venv --without-pip "$env"
site=$("$env/bin/python" -c 'import site; print(site.getsitepackages()[0])')
.env/bin/python -c 'import site; print(site.getsitepackages()[0])' >"$site/clients.pth"
.env/bin/python -m pip --python "$env/bin/python" install --quiet --no-deps --no-index --force-reinstall "$wheel"
