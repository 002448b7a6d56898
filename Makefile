# make install         `characterize` and `uopscope` for every user, in an environment of their own
# make uninstall       takes them away
# make install-kmod    the kernel module: by DKMS where it is installed, else for the running kernel (or KERNEL=release)
# make uninstall-kmod  takes it away
# make test            all gates and tests
#
# PREFIX is where the commands are linked. OPT is where the environment is. PYTHON is the interpreter to make it with.

PREFIX ?= /usr/local
OPT ?= /opt/uopscope
COMMANDS = characterize uopscope

.PHONY: install uninstall install-kmod uninstall-kmod test

install:
	PREFIX="$(PREFIX)" OPT="$(OPT)" sh packaging/install.sh install $(COMMANDS)

uninstall:
	PREFIX="$(PREFIX)" OPT="$(OPT)" sh packaging/install.sh uninstall $(COMMANDS)

install-kmod:
	sh packaging/install-kmod.sh install

uninstall-kmod:
	sh packaging/install-kmod.sh uninstall

test:
	./test
