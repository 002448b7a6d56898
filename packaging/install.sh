#!/bin/sh
# install.sh install|uninstall COMMAND...: what `make install` and `make uninstall` do. Environment: PREFIX, OPT, PYTHON.
#
# It installs the environment in OPT, and a link per command in PREFIX/bin. If a new environment cannot be made, the old
# one is put back.
set -u
here=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$here/packaging/environment.sh"
action=$1
shift

install_environment() {
    rm -rf "$OPT.old"
    [ ! -e "$OPT" ] || mv "$OPT" "$OPT.old" || give_up "$OPT cannot be replaced" "sudo make install"
    trap 'put_back; exit 130' INT TERM HUP
    if build_environment; then
        rm -rf "$OPT.old"
        trap - INT TERM HUP
    else
        put_back
        give_up "nothing was installed" "the reason is above"
    fi
}

put_back() {
    rm -rf "$OPT" "${source:-}"
    [ ! -e "$OPT.old" ] || mv "$OPT.old" "$OPT"
}

# build_environment: build a copy of the sources, so that nothing of the build stays in the checkout.
build_environment() {
    source=$(mktemp -d) || return 1
    say "installing to $OPT"
    "$python" -m venv "$OPT" &&
        "$OPT/bin/python" -m pip install --quiet --disable-pip-version-check 'setuptools>=70.1,<81' &&
        copy_sources "$source" &&
        "$OPT/bin/python" -m pip install --disable-pip-version-check --no-build-isolation \
            --progress-bar "$(progress_bar)" "$source" &&
        : >"$OPT/installed-by-uopscope"
    status=$?
    rm -rf "$source"
    return $status
}

# packages: print the folders and modules that pyproject.toml installs, the only list of them.
packages() {
    "$python" - "$here/pyproject.toml" <<'PYTHON'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    setuptools = tomllib.load(file)["tool"]["setuptools"]
folders = (pattern.removesuffix("*") for pattern in setuptools["packages"]["find"]["include"])
print(*folders, *(f"{module}.py" for module in setuptools["py-modules"]))
PYTHON
}

copy_sources() {
    # shellcheck disable=SC2046 # one word per folder
    (cd "$here" && tar -c --exclude=__pycache__ --exclude=build \
        pyproject.toml README.md LICENSE $(packages)) | tar -x -C "$1"
}

link_commands() {
    mkdir -p "$PREFIX/bin" || give_up "$PREFIX/bin cannot be made"
    for command; do
        link=$PREFIX/bin/$command
        [ ! -e "$link" ] || [ -L "$link" ] || give_up "$link is in the way and not ours" "remove it or choose another PREFIX"
        ln -sfn "$OPT/bin/$command" "$link" || give_up "$link cannot be made"
    done
}

unlink_commands() {
    for command; do
        link=$PREFIX/bin/$command
        [ "$(readlink "$link" 2>/dev/null)" != "$OPT/bin/$command" ] || rm -f "$link"
    done
}

need_own_folder() {
    [ ! -e "$OPT" ] || [ -e "$OPT/installed-by-uopscope" ] ||
        give_up "$OPT exists and was not made by make install" "remove it, or choose another place: make $action OPT=..."
    mkdir -p "$(dirname "$OPT")" 2>/dev/null && [ -w "$(dirname "$OPT")" ] ||
        give_up "$(dirname "$OPT") cannot be written" "sudo make $action"
}

need_own_folder
case $action in
    install)
        find_python
        need_venv_module
        install_environment
        link_commands "$@"
        say "installed: $*"
        ;;
    uninstall)
        unlink_commands "$@"
        rm -rf "$OPT"
        say "uninstalled"
        ;;
esac
