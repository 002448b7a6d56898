// SPDX-License-Identifier: GPL-2.0
/*
 * uopscope: runs microbenchmarks in ring 0. The device, its permissions, and the
 * two ioctls; see uopscope_uapi.h for the interface.
 */
#include <linux/bitops.h>
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/security.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/processor.h>
#include <asm/tsc.h>
#include "uopscope.h"

static struct {
	struct mutex lock;	/* one batch at a time */
	unsigned long opened;	/* bit 0: somebody has the device open */
} device = {
	.lock = __MUTEX_INITIALIZER(device.lock),
};

module_param_named(leave_rdpmc, uops_leave_rdpmc, bool, 0400);
MODULE_PARM_DESC(leave_rdpmc, "for tests: leave the #UD of RDPMC to the kernel's handler");
module_param_named(use_nmi, uops_use_nmi, bool, 0400);
MODULE_PARM_DESC(use_nmi, "for tests: if false, end endless code by INT3 only");

static int device_open(struct inode *inode, struct file *file)
{
	int error;

	if (!capable(CAP_SYS_RAWIO))
		return -EPERM;
	error = security_locked_down(LOCKDOWN_MSR);
	if (error)
		return error;
	if (test_and_set_bit(0, &device.opened))
		return -EBUSY;
	return nonseekable_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
	uops_batch_close();
	clear_bit_unlock(0, &device.opened);
	return 0;
}

static u64 features(void)
{
	u64 value = uops_pmu.features;

	if (uops_contain_possible() == -EOPNOTSUPP)
		value |= UOPS_FEATURE_FRED;
	if (boot_cpu_has(X86_FEATURE_HYPERVISOR))
		value |= UOPS_FEATURE_HYPERVISOR;
	if (uops_leave_rdpmc || !uops_use_nmi)
		value |= UOPS_FEATURE_DEBUG;
	if (uops_quiet_has_apic())
		value |= UOPS_FEATURE_APIC;
	return value | uops_adjust_prepare();
}

static u32 core_type(void)
{
	u32 regs[4];

	uops_cpuid(0, 0, regs);
	if (regs[0] < 0x1a)
		return 0;
	uops_cpuid(0x1a, 0, regs);
	return regs[0] >> 24;
}

static u32 guard_cpu(void)
{
	unsigned int other = uops_guard_cpu(smp_processor_id());

	return other < nr_cpu_ids ? other : UOPS_NO_CPU;
}

/* About the CPU that it is called on. */
static void fill_info(struct uops_info *info)
{
	const struct cpuinfo_x86 *cpu = &cpu_data(smp_processor_id());

	uops_pmu_init();
	*info = (struct uops_info) {
		.size = sizeof(*info),
		.abi_version = UOPS_ABI_VERSION,
		.features = features(),
		.cpu = smp_processor_id(),
		.online_cpus = num_online_cpus(),
		.family = cpu->x86,
		.model = cpu->x86_model,
		.stepping = cpu->x86_stepping,
		.microcode = cpu->microcode,
		.pmu_kind = uops_pmu.kind,
		.pmu_version = uops_pmu.version,
		.prog_mask = uops_pmu.prog_mask,
		.fixed_mask = uops_pmu.fixed_mask,
		.width_prog = uops_pmu.width_prog,
		.width_fixed = uops_pmu.width_fixed,
		.tsc_khz = tsc_khz,
		.core_type = core_type(),
		.config_mask = uops_pmu.allowed,
		.guard_cpu = guard_cpu(),
	};
}

static long ioctl_info(void __user *argument)
{
	struct uops_info info;

	if (copy_from_user(&info, argument, sizeof(info)))
		return -EFAULT;
	if (info.size != sizeof(info))
		return -EINVAL;
	preempt_disable();
	fill_info(&info);
	preempt_enable();
	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static long ioctl_batch(void __user *argument)
{
	struct uops_batch batch;
	int error;

	if (copy_from_user(&batch, argument, sizeof(batch)))
		return -EFAULT;
	if (batch.size != sizeof(batch))
		return -EINVAL;
	error = uops_batch(&batch);
	if (copy_to_user(argument, &batch, sizeof(batch)))
		return -EFAULT;
	return error;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	void __user *argument = (void __user *)value;
	long error;

	if (!mutex_trylock(&device.lock))
		return -EBUSY;
	switch (command) {
	case UOPS_IOC_INFO:
		error = ioctl_info(argument);
		break;
	case UOPS_IOC_BATCH:
		error = ioctl_batch(argument);
		break;
	default:
		error = -ENOTTY;
	}
	mutex_unlock(&device.lock);
	return error;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "uopscope",
	.fops = &operations,
	.mode = 0600,
};

/* In this order; taken back in the opposite one. */
static const struct {
	int (*init)(void);
	void (*exit)(void);
} parts[] = {
	{ uops_code_init, uops_code_exit },
	{ uops_contain_init, uops_contain_exit },
	{ uops_demand_init, uops_demand_exit },
	{ uops_batch_init, uops_batch_exit },
	{ uops_guard_init, uops_guard_exit },
};

static void exit_parts(size_t count)
{
	while (count--)
		parts[count].exit();
}

static int __init uopscope_init(void)
{
	size_t i;
	int error;

	uops_state_init();
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		error = parts[i].init();
		if (error) {
			exit_parts(i);
			return error;
		}
	}
	error = misc_register(&misc);
	if (error)
		exit_parts(ARRAY_SIZE(parts));
	return error;
}

static void __exit uopscope_exit(void)
{
	misc_deregister(&misc);
	exit_parts(ARRAY_SIZE(parts));
}

module_init(uopscope_init);
module_exit(uopscope_exit);
MODULE_DESCRIPTION("Runs microbenchmarks in ring 0 between counter reads");
MODULE_LICENSE("GPL");
