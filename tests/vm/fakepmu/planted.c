// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: leaks memory, and reads freed memory. A kernel with kmemleak and
 * KASAN must report both.
 */
#include <linux/module.h>
#include <linux/slab.h>

static int __init planted_init(void)
{
	volatile char *lost = kmalloc(123, GFP_KERNEL);
	volatile char *freed = kmalloc(77, GFP_KERNEL);

	if (!lost || !freed)
		return -ENOMEM;
	lost[0] = 1;
	kfree((void *)freed);
	pr_info("planted: %d\n", freed[5]);
	return 0;
}

static void __exit planted_exit(void)
{
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_DESCRIPTION("Errors of memory, planted");
MODULE_LICENSE("GPL");
