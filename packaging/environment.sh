# The Python environment of a checkout: made on first use, and again when pyproject.toml changes.
#
# Source it with `here` set to the checkout's folder (POSIX sh). A complete environment holds a copy of the pyproject.toml
# that it was made from. That copy is removed first and written last. So the next start sees an interrupted set-up, and
# goes on with it. Others may be using the environment, so it is made anew only if its pip does not run.
# UOPSCOPE_VENV names another folder for it, PYTHON another interpreter.

venv=${UOPSCOPE_VENV:-$here/.venv}

say() {
    printf 'uopscope: %s\n' "$*" >&2
}

give_up() {
    say "$1"
    shift
    for hint; do
        printf '  %s\n' "$hint" >&2
    done
    exit 3
}

# is_ready EXTRA: whether the environment has everything that pyproject.toml asks for.
is_ready() {
    [ -x "$venv/bin/python" ] && cmp -s "$here/pyproject.toml" "$venv/complete-$1.toml"
}

# version_of PYTHON: print its version, such as 3.11; nothing if it cannot be run or is no Python.
version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null
}

# is_supported PYTHON: whether it can be run and is of a version that is supported.
is_supported() {
    case $(version_of "$1") in
        3.11 | 3.12 | 3.13) return 0 ;;
        *) return 1 ;;
    esac
}

# check_named_python: refuse an interpreter that the user names and that cannot be used, even where none is needed now.
check_named_python() {
    [ -n "${PYTHON:-}" ] || return 0
    is_supported "$PYTHON" || give_up \
        "PYTHON=$PYTHON is no Python 3.11, 3.12 or 3.13 that can be run" "name another one, or unset PYTHON"
    made=$(version_of "$venv/bin/python")
    [ -z "$made" ] || [ "$made" = "$(version_of "$PYTHON")" ] || give_up \
        "PYTHON=$PYTHON is another version than the environment's, $venv, which has Python $made" \
        "unset PYTHON, remove that folder, or name another one with UOPSCOPE_VENV"
}

# find_python: set `python` to the interpreter that PYTHON names, or to the first of a version that is supported.
find_python() {
    for python in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        is_supported "$python" && return 0
    done
    give_up "Python 3.11, 3.12 or 3.13 is needed and none was found" \
        "install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: PYTHON=/path/to/python3.12 $0"
}

# apt_install PACKAGE...: install what is missing; fetch the package lists only if that fails.
apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >&2
}

# need_venv_module: Debian and Ubuntu have what `python3 -m venv` needs in a package of its own.
need_venv_module() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null && return 0
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    hint="install it (Debian, Ubuntu: apt-get install $package) and start again"
    command -v apt-get >/dev/null || give_up "$python lacks the modules venv and ensurepip" "$hint"
    [ "$(id -u)" = 0 ] || give_up "$python lacks the modules venv and ensurepip" "$hint"
    say "installing $package"
    apt_install "$package" || give_up "$package could not be installed" "apt-get's own message is above"
}

# requirements EXTRA: what pyproject.toml asks for, one requirement per line; with `test` that of all extras.
requirements() {
    "$venv/bin/python" - "$here/pyproject.toml" "$1" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"].values() if sys.argv[2] == "test" else []
print(*project["dependencies"], *(one for extra in extras for one in extra), sep="\n")
PYTHON
}

# set_up EXTRA: make or complete the environment. One start at a time does so; others wait for it.
set_up() {
    mkdir -p "$venv" 2>/dev/null && [ -w "$venv" ] || give_up "$venv cannot be written" \
        "name a folder of your own for the Python environment: UOPSCOPE_VENV=\$HOME/.cache/uopscope $0"
    if command -v flock >/dev/null; then
        exec 9>"$venv/lock"
        flock 9
        is_ready "$1" && return 0
    fi
    find_python
    need_venv_module
    say "setting up the Python environment in $venv (once; a minute or two)"
    rm -f "$venv"/complete-*.toml
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$venv/bin" "$venv/lib" "$venv/lib64" "$venv/include" "$venv/pyvenv.cfg"
        "$python" -m venv "$venv" >&2 || give_up "$python -m venv $venv failed" "its message is above"
    fi
    cp "$here/pyproject.toml" "$venv/wanted.toml" || give_up "$venv cannot be written" "is the disk full?"
    requirements "$1" >"$venv/requirements.txt" || give_up "pyproject.toml cannot be read"
    # Python compiles a module when it is first imported: compiling all at once takes a third of the time.
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile --progress-bar "$(progress_bar)" \
        -r "$venv/requirements.txt" >&2 || give_up "the Python packages could not be installed" \
        "pip's message is above; is the network reachable? Starting again goes on from here"
    mv "$venv/wanted.toml" "$venv/complete-$1.toml"
    [ "$1" = run ] || cp "$venv/complete-$1.toml" "$venv/complete-run.toml"
    say "the environment is ready"
}

progress_bar() {
    if [ -t 2 ]; then echo on; else echo off; fi
}

# ensure_environment EXTRA: `run` for what users need, `test` for the gates and tests as well.
ensure_environment() {
    check_named_python
    is_ready "$1" || set_up "$1"
    exec 9>&-
    # Nothing is imported from the user's current folder, neither here nor in child processes.
    PYTHONPATH=$here${PYTHONPATH:+:$PYTHONPATH}
    PYTHONSAFEPATH=1
    export PYTHONPATH PYTHONSAFEPATH
}
