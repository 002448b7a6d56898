// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: makes the n-th allocation (or registration) of uopscope.ko's
 * init fail, on kernels without CONFIG_FAULT_INJECTION.
 *
 * A probe on each function below lets calls that come from the module return the
 * failure instead, when `countdown` reaches zero. `calls` counts what was seen.
 */
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/linkage.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <asm/ibt.h>

static int countdown = -1;
module_param(countdown, int, 0600);
static unsigned long calls;
module_param(calls, ulong, 0600);
static unsigned long failed;
module_param(failed, ulong, 0400);

static bool from_module(unsigned long address)
{
	char name[KSYM_SYMBOL_LEN];

	if (strcmp(current->comm, "insmod"))
		return false;
	sprint_symbol(name, address);
	return strstr(name, "[uopscope]");
}

static bool fails_now(struct pt_regs *regs)
{
	if (!from_module(*(unsigned long *)regs->sp))
		return false;
	calls++;
	if (countdown < 0 || countdown-- > 0)
		return false;
	failed++;
	return true;
}

/* A probed function is made to return at once by going on here: changes of SP are lost. */
asm(".text\n"
    ".type fail_return, @function\n"
    "fail_return:\n"
    ASM_ENDBR
    ASM_RET
    ".size fail_return, . - fail_return\n");
extern char fail_return[];

static int fail(struct pt_regs *regs, unsigned long value)
{
	if (!fails_now(regs))
		return 0;
	regs->ax = value;
	regs->ip = (unsigned long)fail_return;
	return 1;
}

static int fail_null(struct kprobe *probe, struct pt_regs *regs)
{
	return fail(regs, 0);
}

static int fail_errno(struct kprobe *probe, struct pt_regs *regs)
{
	return fail(regs, -ENOMEM);
}

/* Of each pair of names one exists, depending on the kernel's version. */
static struct kprobe probes[] = {
	{ .symbol_name = "__kmalloc", .pre_handler = fail_null },
	{ .symbol_name = "__kmalloc_noprof", .pre_handler = fail_null },
	{ .symbol_name = "kmalloc_trace", .pre_handler = fail_null },
	{ .symbol_name = "__kmalloc_cache_noprof", .pre_handler = fail_null },
	{ .symbol_name = "__kmalloc_large_noprof", .pre_handler = fail_null },
	{ .symbol_name = "kmalloc_large", .pre_handler = fail_null },
	{ .symbol_name = "get_zeroed_page", .pre_handler = fail_null },
	{ .symbol_name = "get_zeroed_page_noprof", .pre_handler = fail_null },
	{ .symbol_name = "vmalloc", .pre_handler = fail_null },
	{ .symbol_name = "vmalloc_noprof", .pre_handler = fail_null },
	{ .symbol_name = "vzalloc", .pre_handler = fail_null },
	{ .symbol_name = "vzalloc_noprof", .pre_handler = fail_null },
	{ .symbol_name = "vmap", .pre_handler = fail_null },
	{ .symbol_name = "__register_nmi_handler", .pre_handler = fail_errno },
	{ .symbol_name = "misc_register", .pre_handler = fail_errno },
};

static bool registered[ARRAY_SIZE(probes)];

static int __init fail_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		registered[i] = !register_kprobe(&probes[i]);
	return 0;
}

static void __exit fail_exit(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (registered[i])
			unregister_kprobe(&probes[i]);
}

module_init(fail_init);
module_exit(fail_exit);
MODULE_DESCRIPTION("Failing allocations for tests of uopscope");
MODULE_LICENSE("GPL");
