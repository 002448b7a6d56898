// SPDX-License-Identifier: Apache-2.0
/*
 * Loads and unloads the module, each time with another allocation of its init failing.
 *
 *   cycle FILE COUNT CALLS
 *
 * CALLS is how many calls of its init allocfail.ko can make fail; one load in CALLS + 1
 * is left alone. Prints `cycle: COUNT loads, OK ok, FAILED failed, STRANGE strange`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNTDOWN "/sys/module/allocfail/parameters/countdown"

static void set_countdown(long value)
{
	FILE *file = fopen(COUNTDOWN, "w");

	if (file) {
		fprintf(file, "%ld\n", value);
		fclose(file);
	}
}

static int load(const char *path)
{
	int error, file = open(path, O_RDONLY);

	error = syscall(SYS_finit_module, file, "", 0) ? errno : 0;
	close(file);
	return error;
}

int main(int argc, char **argv)
{
	long i, count, calls, fine = 0, failed = 0, strange = 0;
	int error, expected;

	if (argc < 4)
		return 2;
	count = atol(argv[2]);
	calls = atol(argv[3]);
	/* allocfail.ko looks at calls of insmod only */
	prctl(PR_SET_NAME, "insmod");
	for (i = 0; i < count; i++) {
		set_countdown(i % (calls + 1) - 1);
		expected = i % (calls + 1) ? ENOMEM : 0;
		error = load(argv[1]);
		fine += !error;
		failed += error == ENOMEM;
		strange += error != expected;
		if (!error && syscall(SYS_delete_module, "uopscope", O_NONBLOCK))
			strange++;
	}
	set_countdown(-1);
	printf("cycle: %ld loads, %ld ok, %ld failed, %ld strange\n", count, fine, failed, strange);
	return strange != 0;
}
