#!/usr/bin/env bash
# Copyright (c) 2026 The mcufuse authors
# SPDX-License-Identifier: Apache-2.0
#
# Sets up what mcufuse needs, and says what it installs. What is already there is left alone.
#
#   scripts/setup.sh            everything
#   scripts/setup.sh python     .venv with mcufuse and its packages
#   scripts/setup.sh tools      compiler, emulator and what Zephyr builds with (apt-get, as root or with sudo)
#   scripts/setup.sh zephyr     a Zephyr workspace in .cache/, if there is none and the network allows; never fails
#
# PYTHON=/path/to/python chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# Runs a command quietly; shows what it printed when it fails. DESCRIPTION COMMAND...
quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  say "$what"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

# ---- Debian packages -------------------------------------------------------------------------------------

as_root=()
can_install() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -eq 0 ]; then
    return 0
  fi
  as_root=(sudo -n env)
  command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

apt_updated=""
apt_install() {
  if ! can_install; then
    die "missing: $*
  install them, then try again:  sudo apt-get update && sudo apt-get install $*"
  fi
  local apt=("${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  export DEBIAN_FRONTEND=noninteractive
  if [ -z "$apt_updated" ]; then
    quietly "updating the list of Debian packages" "${apt[@]}" update || say "apt-get update failed; trying with the old list"
    apt_updated=yes
  fi
  quietly "installing Debian packages: $*" "${apt[@]}" install --no-install-recommends "$@" ||
    die "apt-get could not install: $*"
}

has_arm_libc() {
  local file
  file=$(arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb -print-file-name=libc.a 2>/dev/null) && [ "${file#/}" != "$file" ]
}

setup_tools() {
  local missing=() program package
  while read -r program package; do
    command -v "$program" >/dev/null || missing+=("$package")
  done <<'TABLE'
arm-none-eabi-gcc gcc-arm-none-eabi
qemu-system-arm qemu-system-arm
gcc gcc
git git
cmake cmake
ninja ninja-build
dtc device-tree-compiler
ccache ccache
TABLE
  has_arm_libc || missing+=(libnewlib-arm-none-eabi)
  echo 'int main(void) { return 0; }' | gcc -x c -fsanitize=address,undefined -o /dev/null - 2>/dev/null || missing+=(libc6-dev)
  if [ "${#missing[@]}" -gt 0 ]; then
    apt_install "${missing[@]}"
  fi
  # A browser for the tests of the HTML pages, which are skipped without one.
  if ! command -v chromium >/dev/null && can_install; then
    (apt_install chromium) || say "going on without chromium: the tests of HTML pages in a browser will be skipped"
  fi
}

# ---- Python ----------------------------------------------------------------------------------------------

# Whether interpreter $1 runs and is at least version $2, $3, ...
python_is() {
  local python=$1 wanted
  shift
  wanted=$(IFS=,; echo "$*")
  "$python" -c "import sys; sys.exit(sys.version_info < ($wanted,))" >/dev/null 2>&1
}

# Zephyr 4.2 wants Python 3.12.1 in newer tools; without one, any 3.11 will do for everything else.
choose_python() {
  local candidate pyenv_python=""
  if [ -n "${PYTHON:-}" ]; then
    python_is "$PYTHON" 3 11 || die "PYTHON=$PYTHON does not run or is older than Python 3.11"
    command -v "$PYTHON"
    return
  fi
  if command -v pyenv >/dev/null; then
    pyenv_python="$(pyenv prefix 3.12 2>/dev/null || pyenv prefix 3.13 2>/dev/null || true)/bin/python"
  fi
  for candidate in python3 python3.12 python3.13 "$pyenv_python"; do
    if python_is "$candidate" 3 12 1; then
      command -v "$candidate"
      return
    fi
  done
  for candidate in python3 python3.11 /usr/bin/python3; do
    if python_is "$candidate" 3 11; then
      command -v "$candidate"
      return
    fi
  done
  die "no Python 3.11 or later; on Debian: sudo apt-get install python3 python3-venv"
}

setup_python() {
  local python stamp
  # The venv is current while the interpreter works and nothing that says what to install has changed.
  stamp=".venv/mcufuse-$(cat pyproject.toml setup.py "$0" | sha256sum | cut -c1-16)"
  if [ -f "$stamp" ] && .venv/bin/python -c 'import mcufuse' 2>/dev/null; then
    return
  fi
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(choose_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
    rm -rf .venv
    quietly "making .venv with $("$python" --version) ($python)" "$python" -m venv .venv ||
      die "$python -m venv .venv failed"
  fi
  rm -f .venv/mcufuse-*
  quietly "installing mcufuse and its Python packages into .venv" \
    .venv/bin/python -m pip install --disable-pip-version-check --retries 5 -e '.[dev,tflm,ort,zephyr]' ||
    die "pip could not install the Python packages"
  touch "$stamp"
}

# ---- Zephyr ----------------------------------------------------------------------------------------------

zephyr_base() {
  .venv/bin/python -c 'from mcufuse.doctor import find_zephyr_base as f; print(f() or "")'
}

zephyr_problem() {
  .venv/bin/python -c 'from mcufuse.doctor import zephyr_problem as f; print(f())'
}

# A shallow clone of Zephyr and the one module that Cortex-M needs.
fetch_zephyr() {
  local url=https://github.com/zephyrproject-rtos/zephyr revision=$1 top=.cache/zephyrproject west
  west=$PWD/.venv/bin/west
  rm -rf "$top"
  mkdir -p .cache
  quietly "fetching Zephyr $revision into $top (some minutes)" \
    timeout 1200 "$west" init -m "$url" --mr "$revision" -o=--depth=1 --narrow "$top" || return 1
  (cd "$top" && "$west" config manifest.project-filter -- '-.*,+cmsis_6') || return 1
  (cd "$top" && quietly "fetching Zephyr's module cmsis_6" timeout 600 "$west" update --narrow -o=--depth=1)
}

setup_zephyr() {
  local base problem revision
  base=$(zephyr_base)
  if [ -n "$base" ]; then
    problem=$(zephyr_problem)
    say "Zephyr: ${problem:-using $base}"
    return
  fi
  if ! python_is .venv/bin/python 3 12; then
    say "Zephyr: none here, and it wants Python 3.12 (this is $(.venv/bin/python --version)); going on without it"
    return
  fi
  revision=$(sed -n 's/^ *revision: *\(v[0-9][^ ]*\).*/\1/p' west.yml 2>/dev/null | head -n 1)
  revision=${revision:-v4.2.0}
  if ! GIT_TERMINAL_PROMPT=0 timeout 15 git ls-remote --exit-code https://github.com/zephyrproject-rtos/zephyr \
    "refs/tags/$revision" >/dev/null 2>&1; then
    say "Zephyr: no workspace here, and github.com cannot be reached; going on without it"
    return
  fi
  if ! fetch_zephyr "$revision"; then
    rm -rf .cache/zephyrproject
    say "Zephyr: it could not be fetched; going on without it"
  fi
}

# ----------------------------------------------------------------------------------------------------------

if [ "$#" -eq 0 ]; then
  set -- tools python zephyr
fi
for part in "$@"; do
  case $part in
    tools) setup_tools ;;
    python) setup_python ;;
    zephyr) setup_zephyr ;;
    *) die "unknown part \"$part\": choose from tools, python, zephyr" ;;
  esac
done
