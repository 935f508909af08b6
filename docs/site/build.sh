#!/usr/bin/env bash
# Builds the site into target/site; `build.sh serve` shows it at http://127.0.0.1:8000 and follows changes. VIRTUALIZE_BIN names the command that is described.
set -euo pipefail
cd "$(dirname "$0")/../.."
env=target/site-env
if ! cmp -s docs/site/requirements.txt $env/requirements.txt; then
    python=python3
    [ ! -x .env/bin/python ] || python=.env/bin/python
    rm -rf $env
    $python -m venv $env
    $env/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r docs/site/requirements.txt
    cp docs/site/requirements.txt $env/
fi
export NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true
exec $env/bin/mkdocs "${1:-build}" --config-file docs/site/mkdocs.yml
