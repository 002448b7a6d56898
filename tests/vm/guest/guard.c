// SPDX-License-Identifier: Apache-2.0
/* Prints for every CPU whose timer watches over it: `guard CPU by OTHER`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "uopscope_uapi.h"

int main(void)
{
	int device = open("/dev/uopscope", O_RDWR), cpu;

	for (cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		struct uops_info info = { .size = sizeof(info) };
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		CPU_SET(cpu, &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
		if (ioctl(device, UOPS_IOC_INFO, &info))
			perror("info");
		printf("guard %u by %u\n", info.cpu, info.guard_cpu);
	}
	return 0;
}
