// SPDX-License-Identifier: Apache-2.0
/*
 * Who may open the device, and what happens while it is open.
 *
 *   access open          prints the errno's name of opening it, as the caller
 *   access user          as user 1000 (EACCES), and as root without CAP_SYS_RAWIO (EPERM)
 *   access hold COMMAND  keeps it open while COMMAND runs
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/capability.h>

#define DEVICE "/dev/uopscope"

static int try_open(const char *who)
{
	int device = open(DEVICE, O_RDWR);

	printf("open %s: %s\n", who, device < 0 ? strerrorname_np(errno) : "OK");
	fflush(stdout);
	return device;
}

static void drop_rawio(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	syscall(SYS_capget, &header, data);
	data[0].effective &= ~(1u << CAP_SYS_RAWIO);
	data[0].permitted &= ~(1u << CAP_SYS_RAWIO);
	syscall(SYS_capset, &header, data);
}

static void as_child(void (*change)(void), const char *who)
{
	if (!fork()) {
		change();
		try_open(who);
		exit(0);
	}
	wait(NULL);
}

static void become_user(void)
{
	if (setgid(1000) || setuid(1000))
		exit(1);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "user")) {
		as_child(become_user, "user");
		as_child(drop_rawio, "without-capability");
	} else if (argc > 2 && !strcmp(argv[1], "hold")) {
		if (try_open("first") < 0)
			return 1;
		return system(argv[2]) != 0;
	} else {
		return try_open("root") < 0;
	}
	return 0;
}
