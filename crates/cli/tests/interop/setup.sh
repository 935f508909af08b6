#!/usr/bin/env bash
# Makes the Python environment of the interop tests in .env/ at the top of the checkout; does nothing when it is up to date.
# Python 3.12 or newer is looked for on PATH, then in pyenv, and fetched by uv as a last resort. PYTHON=… overrides.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
env=${1:-$(cd "$here/../../../.." && pwd)/.env}
stamp=$env/requirements.txt

recent() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.13 python3.14 python3.12 python3 python \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do
        if recent "$candidate"; then echo "$candidate"; return; fi
    done
}

fetch_python() {
    local any
    for any in python3 python; do
        "$any" -m venv "$env/uv" >/dev/null 2>&1 && break
    done
    "$env/uv/bin/pip" install --quiet uv
    "$env/uv/bin/uv" python install --quiet --install-dir "$env/python" 3.13
    ls -d "$env"/python/*/bin/python3.13 | head -1
}

# zarrita.js, where there is Node.js; without it the test that reads with zarrita.js says so and is skipped.
zarrita() {
    command -v npm >/dev/null || { echo "setup.sh: no npm, so nothing is read with zarrita.js" >&2; return 0; }
    cmp -s "$here/peers/zarrita/package-lock.json" "$env/zarrita/package-lock.json" && [ -d "$env/zarrita/node_modules" ] && return 0
    mkdir -p "$env/zarrita"
    cp "$here/peers/zarrita/package.json" "$here/peers/zarrita/package-lock.json" "$env/zarrita/"
    (cd "$env/zarrita" && npm ci --silent --no-audit --no-fund) || { rm -rf "$env/zarrita"; echo "setup.sh: npm ci failed" >&2; return 1; }
}
zarrita

if [ -x "$env/bin/python" ] && cmp -s "$here/requirements.txt" "$stamp"; then exit 0; fi
mkdir -p "$env"
python=$(find_python)
[ -n "$python" ] || python=$(fetch_python)
[ -n "$python" ] || { echo "setup.sh: no Python 3.12 or newer; install one, or set PYTHON" >&2; exit 1; }
echo "setup.sh: $("$python" --version) -> ${env#"$PWD"/}"
"$python" -m venv "$env"
"$env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-binary antlr4-python3-runtime -r "$here/requirements.txt"
cp "$here/requirements.txt" "$stamp"
