#!/bin/sh
# install-kmod.sh install|uninstall: what `make install-kmod` does. Environment: KERNEL (a release; default the running
# one), MODULES (the folder of all kernels' modules; default /lib/modules).
#
# With DKMS the module is built again for every new kernel. Without it the module is built once, for this kernel. Nothing
# is left in the checkout.
set -u
here=$(dirname "$(dirname "$(readlink -f "$0")")")
KERNEL=${KERNEL:-$(uname -r)}
MODULES=${MODULES:-/lib/modules}
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$here/kmod/dkms.conf")
target="$MODULES/$KERNEL/updates/uopscope.ko"
dkms_source="/usr/src/uopscope-$version"

say() { printf '%s\n' "$*" >&2; }
give_up() {
    say "error: $1"
    say "  $2"
    exit 1
}

distribution() {
    [ -r /etc/os-release ] && (. /etc/os-release && printf '%s %s' "${ID:-}" "${ID_LIKE:-}")
}

headers_hint() {
    case " $(distribution) " in
    *debian* | *ubuntu*) echo "sudo apt-get install linux-headers-$KERNEL" ;;
    *fedora* | *rhel*) echo "sudo dnf install kernel-devel-$KERNEL" ;;
    *suse*) echo "sudo zypper install kernel-devel" ;;
    *arch*) echo "sudo pacman -S linux-headers" ;;
    *) echo "install the headers of the kernel $KERNEL" ;;
    esac
}

check() {
    [ -d "$build" ] || give_up "there are no headers of the kernel $KERNEL ($build)" "$(headers_hint)"
    for tool in make gcc; do
        command -v $tool >/dev/null || give_up "$tool is not installed" "install the package $tool"
    done
    [ -w "$MODULES/$KERNEL" ] || give_up "$MODULES/$KERNEL cannot be written" "sudo make install-kmod"
}

use_dkms() {
    [ "$MODULES" = /lib/modules ] && command -v dkms >/dev/null
}

# Remove every version that DKMS has, with its sources.
remove_from_dkms() {
    for old in /var/lib/dkms/uopscope/*/; do
        old=$(basename "$old")
        [ "$old" = '*' ] && continue
        dkms remove "uopscope/$old" --all >/dev/null 2>&1
        rm -rf "/usr/src/uopscope-$old"
    done
}

# Print the kernels to install for: this one, and others that have the module and whose headers are there.
kernels() {
    echo "$KERNEL"
    for module in "$MODULES"/*/updates/dkms/uopscope.ko*; do
        kernel=${module#"$MODULES/"}
        kernel=${kernel%%/*}
        [ "$kernel" != "$KERNEL" ] && [ -d "$MODULES/$kernel/build" ] && echo "$kernel"
    done
}

install_by_dkms() {
    wanted=$(kernels)
    remove_from_dkms
    rm -rf "$dkms_source"
    cp -r "$here/kmod" "$dkms_source" && dkms add "uopscope/$version" || give_up "DKMS cannot add it" "the reason is above"
    for kernel in $wanted; do
        dkms build "uopscope/$version" -k "$kernel" && dkms install "uopscope/$version" -k "$kernel" ||
            give_up "DKMS could not install it for $kernel" "the reason is above"
    done
}

install_once() {
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT INT TERM HUP
    cp "$here"/kmod/* "$work" || exit 1
    make -C "$build" M="$work" modules >"$work/log" 2>&1 || {
        tail -20 "$work/log" >&2
        give_up "the module does not compile for $KERNEL" "the compiler's messages are above; please report them"
    }
    strip --strip-debug "$work/uopscope.ko" 2>/dev/null
    mkdir -p "$(dirname "$target")" && cp "$work/uopscope.ko" "$target.new" && mv "$target.new" "$target" ||
        give_up "$target cannot be written" "sudo make install-kmod"
    PATH=$PATH:/sbin:/usr/sbin depmod -a ${depmod_base:+-b "$depmod_base"} "$KERNEL" ||
        give_up "depmod failed" "install the package kmod"
    say "installed $target (for this kernel only: DKMS is not installed)"
}

# Load it if it was built for the running kernel: Secure Boot refuses unsigned modules.
try_it() {
    [ "$MODULES" = /lib/modules ] && [ "$KERNEL" = "$(uname -r)" ] || return 0
    PATH=$PATH:/sbin:/usr/sbin
    rmmod uopscope 2>/dev/null
    if modprobe uopscope; then
        say "the module is loaded; \`uopscope selftest\` checks it"
    else
        say "the module is installed, but the kernel does not take it: see the last lines of dmesg"
        say "  with Secure Boot, sign it with a machine owner key, or turn Secure Boot off"
    fi
}

uninstall() {
    PATH=$PATH:/sbin:/usr/sbin
    rmmod uopscope 2>/dev/null
    command -v dkms >/dev/null && remove_from_dkms
    rm -rf "$dkms_source" "$target"
    depmod -a ${depmod_base:+-b "$depmod_base"} "$KERNEL" 2>/dev/null
    say "uninstalled"
}

build=/lib/modules/$KERNEL/build
[ -d "$build" ] || build=/usr/src/linux-headers-$KERNEL
case $MODULES in
/lib/modules) depmod_base= ;;
*) depmod_base=${MODULES%/lib/modules} ;;
esac
case ${1:-} in
install)
    check
    if use_dkms; then install_by_dkms; else install_once; fi
    try_it
    ;;
uninstall) uninstall ;;
*) give_up "install-kmod.sh install|uninstall" "usually by make install-kmod" ;;
esac
