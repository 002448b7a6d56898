// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: a PMU for uopscope.ko where there is none (QEMU's TCG).
 *
 * - Probes on uops_cpuid, uops_vendor, uops_rdmsr and uops_wrmsr let the module
 *   see the PMU that a test describes, and log everything that it programs. Another
 *   one sets the bits of `more_cr4` in what it reads of CR4.
 * - A die notifier emulates RDPMC, which raises #UD under TCG. Its counts come from
 *   a table loaded beforehand, by the blob (a hash of its bytes but for the first
 *   eight) and by what the module has programmed: what is programmed wrongly counts
 *   wrongly. Reads of a counter alternate between start and end of the run; counters
 *   start just below their width, so that a difference has to be cut to it.
 * - RDMSR of APERF and MPERF gives zero under TCG. Where a test has set these
 *   registers, the instruction becomes RDPMC in the blob's copy in the module.
 *
 * /dev/fakepmu: records are written to it and read from it (struct record).
 */
#include <linux/bsearch.h>
#include <linux/fs.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/linkage.h>
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/ibt.h>
#include <asm/nmi.h>

enum { RECORD_CLEAR, RECORD_VENDOR, RECORD_CPUID, RECORD_MSR, RECORD_WIDTH, RECORD_COUNT };

/* What is written; a kind of its own for each thing that can be set. */
struct record {
	u64 kind;
	u64 a, b, c;
};

/* What is read: every register access, in order. */
struct access {
	u64 msr;
	u64 value;
	u64 is_write;
	u64 unknown;
};

struct row {
	u64 key, selector, count;
};

#define MAX_ROWS	2000000
#define MAX_LOG		100000
#define MAX_MSRS	64
#define MAX_LEAVES	16
#define MAX_COUNTERS	32
#define AREA_PAGES	(0x100000 / PAGE_SIZE)	/* UOPS_CODE_BYTES */
#define FIXED		0x40000000u
#define FIXED_SELECTOR	0xf1000000u
#define FREE_SELECTOR	0xf2000000u
#define MPERF		0xe7u
#define APERF		0xe8u
#define SEL_OS_EN	((1ull << 17) | (1ull << 22))
#define NO_COUNT	0x00badc0u
#define AMD_PERFCTR0	0xc0010201u

static struct row *rows;
static size_t num_rows;
static struct access *access_log;
static size_t num_log;
/* step: by how much each read makes it larger */
static struct { u64 msr, value, step; } msrs[MAX_MSRS];
static size_t num_msrs;
/* leaf: with the subleaf in its high half; high: EAX and EBX; low: ECX and EDX */
static struct { u64 leaf, high, low; } leaves[MAX_LEAVES];
static size_t num_leaves;
static int vendor = -1;
static u32 width_prog = 48, width_fixed = 48;
static const u8 *area;	/* where the module puts blobs */
static u8 *alias;	/* the same memory, to be written */
static u32 blob_bytes;
static bool key_is_known;
static u64 key;
static bool ended[2 * MAX_COUNTERS];
static unsigned long missing, reads, more_cr4;

static u64 *find_msr(u64 msr)
{
	size_t i;

	for (i = 0; i < num_msrs; i++)
		if (msrs[i].msr == msr)
			return &msrs[i].value;
	return NULL;
}

static u64 *step_of(u64 *value)
{
	return &container_of(value, typeof(*msrs), value)->step;
}

static void log_access(u64 msr, u64 value, bool is_write, bool unknown)
{
	if (num_log < MAX_LOG)
		access_log[num_log++] = (struct access){ msr, value, is_write, unknown };
}

/* A probed function is made to return at once by going on here: changes of SP are lost. */
asm(".text\n"
    ".type fake_return, @function\n"
    "fake_return:\n"
    ASM_ENDBR
    ASM_RET
    ".size fake_return, . - fake_return\n");
extern char fake_return[];

/* Make the probed function return at once. */
static int return_now(struct pt_regs *regs, unsigned long value)
{
	regs->ax = value;
	regs->ip = (unsigned long)fake_return;
	return 1;
}

static int on_wrmsr(struct kprobe *probe, struct pt_regs *regs)
{
	u64 *value = find_msr((u32)regs->di);

	log_access((u32)regs->di, regs->si, true, !value);
	if (!value)
		return return_now(regs, -EIO);
	*value = regs->si;
	/* the full-width aliases are the counters themselves */
	if ((u32)regs->di >= 0x4c1 && (u32)regs->di < 0x4c9) {
		value = find_msr((u32)regs->di - 0x400);
		if (value)
			*value = regs->si;
	}
	return return_now(regs, 0);
}

static int on_rdmsr(struct kprobe *probe, struct pt_regs *regs)
{
	u64 *value = find_msr((u32)regs->di);

	log_access((u32)regs->di, value ? *value : 0, false, !value);
	if (!value)
		return return_now(regs, -EIO);
	*(u64 *)regs->si = *value;
	*value += *step_of(value);
	return return_now(regs, 0);
}

static int on_cpuid(struct kprobe *probe, struct pt_regs *regs)
{
	u32 *out = (u32 *)regs->dx;
	size_t i;

	for (i = 0; i < num_leaves; i++) {
		if (leaves[i].leaf != ((u64)(u32)regs->si << 32 | (u32)regs->di))
			continue;
		out[0] = leaves[i].high >> 32;
		out[1] = leaves[i].high;
		out[2] = leaves[i].low >> 32;
		out[3] = leaves[i].low;
		return return_now(regs, 0);
	}
	return 0;
}

static int on_vendor(struct kprobe *probe, struct pt_regs *regs)
{
	return vendor < 0 ? 0 : return_now(regs, vendor);
}

/* No emulator here has FRED, so its bit of CR4 can only be made up. */
static int on_cr4(struct kprobe *probe, struct pt_regs *regs)
{
	return more_cr4 ? return_now(regs, __read_cr4() | more_cr4) : 0;
}

/* The blob's copy in the module can be read at any time; what user space handed over may be paged out or on the move. */
static int on_install(struct kprobe *probe, struct pt_regs *regs)
{
	blob_bytes = regs->si;
	key_is_known = false;
	memset(ended, 0, sizeof(ended));
	return 0;
}

/* FNV-1a over the blob without its literal. */
static u64 key_of_blob(void)
{
	u64 hash = 0xcbf29ce484222325ull;
	u32 at;

	for (at = 8; at < blob_bytes; at++)
		hash = (hash ^ area[at]) * 0x100000001b3ull;
	return hash;
}

/* ECX is loaded just before: MOV ECX, imm32; RDMSR */
static bool reads_free_running(const u8 *code)
{
	return code[0] == 0xb9 && (code[1] == MPERF || code[1] == APERF) && !code[2] && !code[3] &&
	       !code[4] && code[5] == 0x0f && code[6] == 0x32;
}

/* The blob is in place, nothing runs yet. */
static int on_installed(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	u32 at;

	if (regs->ax || !find_msr(APERF))
		return 0;
	key = key_of_blob();
	key_is_known = true;
	for (at = 8; at + 7 <= blob_bytes; at++)
		if (reads_free_running(area + at))
			alias[at + 6] = 0x33;
	return 0;
}

static struct kretprobe installed = {
	.kp.symbol_name = "uops_code_install",
	.handler = on_installed,
};

static int compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->selector != y->selector)
		return x->selector < y->selector ? -1 : 1;
	return 0;
}

/* What a counter is programmed to count; false if it is stopped. */
static bool selector_of(u32 index, u64 *selector)
{
	bool amd = find_msr(0xc0010200);
	u32 number = index & ~FIXED;
	u64 *control, *global = find_msr(amd ? 0xc0000301 : 0x38f);

	if (index == MPERF || index == APERF) {
		*selector = FREE_SELECTOR + index;
		return true;
	}
	control = find_msr(index & FIXED ? 0x38d : amd ? 0xc0010200 + 2 * number : 0x186 + number);
	if (!control)
		return false;
	if (global && !(*global >> (index & FIXED ? 32 + number : number) & 1))
		return false;
	if (index & FIXED) {
		*selector = FIXED_SELECTOR + number;
		return *control >> (4 * number) & 1;
	}
	*selector = *control & ~SEL_OS_EN;
	return (*control & SEL_OS_EN) == SEL_OS_EN;
}

static u64 count_of(u32 index)
{
	struct row wanted = {};
	const struct row *found;

	if (!selector_of(index, &wanted.selector))
		return 0;
	if (!key_is_known)
		key = key_of_blob();
	key_is_known = true;
	wanted.key = key;
	found = bsearch(&wanted, rows, num_rows, sizeof(*rows), compare);
	missing += !found;
	return found ? found->count : NO_COUNT;
}

static u64 read_counter(u32 index)
{
	u32 number = index & ~FIXED, width = index & FIXED ? width_fixed : width_prog;
	u32 slot = number % MAX_COUNTERS + (index & FIXED ? MAX_COUNTERS : 0);
	u64 mask = width < 64 ? (1ull << width) - 1 : ~0ull, value = mask - 2;

	reads++;
	if (ended[slot])
		value += count_of(index);
	ended[slot] = !ended[slot];
	return value & mask;
}

static int on_die(struct notifier_block *block, unsigned long event, void *data)
{
	struct die_args *args = data;
	struct pt_regs *regs = args->regs;
	u8 code[2];
	u64 value;

	if (event != DIE_TRAP || args->trapnr != 6 || user_mode(regs))
		return NOTIFY_DONE;
	if (copy_from_kernel_nofault(code, (void *)regs->ip, 2) || code[0] != 0x0f || code[1] != 0x33)
		return NOTIFY_DONE;
	value = read_counter(regs->cx);
	regs->ax = (u32)value;
	regs->dx = value >> 32;
	regs->ip += 2;
	return NOTIFY_STOP;
}

static struct notifier_block die_block = { .notifier_call = on_die, .priority = 100 };

static struct kprobe probes[] = {
	{ .symbol_name = "uops_wrmsr", .pre_handler = on_wrmsr },
	{ .symbol_name = "uops_rdmsr", .pre_handler = on_rdmsr },
	{ .symbol_name = "uops_cpuid", .pre_handler = on_cpuid },
	{ .symbol_name = "uops_vendor", .pre_handler = on_vendor },
	{ .symbol_name = "uops_cr4", .pre_handler = on_cr4 },
	{ .symbol_name = "uops_code_install", .pre_handler = on_install },
};

static void clear_all(void)
{
	num_rows = 0;
	num_log = 0;
	num_msrs = 0;
	num_leaves = 0;
	vendor = -1;
	missing = 0;
	reads = 0;
}

static int take(const struct record *record)
{
	switch (record->kind) {
	case RECORD_CLEAR:
		clear_all();
		return 0;
	case RECORD_VENDOR:
		vendor = record->a;
		return 0;
	case RECORD_CPUID:
		if (num_leaves == MAX_LEAVES)
			return -ENOSPC;
		leaves[num_leaves].leaf = record->a;
		leaves[num_leaves].high = record->b;
		leaves[num_leaves++].low = record->c;
		return 0;
	case RECORD_MSR:
		if (num_msrs == MAX_MSRS)
			return -ENOSPC;
		msrs[num_msrs].msr = record->a;
		msrs[num_msrs].step = record->c;
		msrs[num_msrs++].value = record->b;
		return 0;
	case RECORD_WIDTH:
		width_prog = record->a;
		width_fixed = record->b;
		return 0;
	case RECORD_COUNT:
		if (num_rows == MAX_ROWS)
			return -ENOSPC;
		rows[num_rows++] = (struct row){ record->a, record->b, record->c };
		return 0;
	default:
		return -EINVAL;
	}
}

static ssize_t fake_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	struct record record;
	size_t done;
	int error;

	for (done = 0; done + sizeof(record) <= size; done += sizeof(record)) {
		if (copy_from_user(&record, from + done, sizeof(record)))
			return -EFAULT;
		error = take(&record);
		if (error)
			return error;
	}
	return done;
}

static ssize_t fake_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	return simple_read_from_buffer(to, size, at, access_log, num_log * sizeof(*access_log));
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = fake_write,
	.read = fake_read,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fakepmu",
	.fops = &operations,
	.mode = 0600,
};

/* Holds the first counter of AMD's, as perf does while it counts. */
static bool held;

static int set_held(const char *text, const struct kernel_param *parameter)
{
	bool wanted;
	int error = kstrtobool(text, &wanted);

	if (error || wanted == held)
		return error;
	if (wanted && !reserve_perfctr_nmi(AMD_PERFCTR0))
		return -EBUSY;
	if (!wanted)
		release_perfctr_nmi(AMD_PERFCTR0);
	held = wanted;
	return 0;
}

static const struct kernel_param_ops held_operations = { .set = set_held };
module_param_cb(held, &held_operations, NULL, 0200);
module_param(more_cr4, ulong, 0600);
module_param(missing, ulong, 0400);
module_param(reads, ulong, 0400);

/* kallsyms_lookup_name() is not exported; a probe finds it. */
static int __init find_area(void)
{
	struct kprobe finder = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long (*lookup)(const char *name);
	int error = register_kprobe(&finder);

	if (error)
		return error;
	lookup = (void *)finder.addr;
	unregister_kprobe(&finder);
	area = (const u8 *)lookup("uops_area");
	return area ? 0 : -ENOENT;
}

static int __init map_alias(void)
{
	struct page **pages = kmalloc_array(AREA_PAGES, sizeof(*pages), GFP_KERNEL);
	int i;

	if (!pages)
		return -ENOMEM;
	for (i = 0; i < AREA_PAGES; i++)
		pages[i] = vmalloc_to_page(area + i * PAGE_SIZE);
	alias = vmap(pages, AREA_PAGES, VM_MAP, PAGE_KERNEL);
	kfree(pages);
	return alias ? 0 : -ENOMEM;
}

static int __init fake_init(void)
{
	size_t i;
	int error = find_area() ?: map_alias();

	if (error)
		return error;
	rows = vmalloc(MAX_ROWS * sizeof(*rows));
	access_log = vmalloc(MAX_LOG * sizeof(*access_log));
	if (!rows || !access_log)
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		error = register_kprobe(&probes[i]);
		if (error) {
			pr_err("fakepmu: no probe on %s: %d\n", probes[i].symbol_name, error);
			return error;
		}
	}
	error = register_kretprobe(&installed);
	if (error)
		return error;
	register_die_notifier(&die_block);
	return misc_register(&misc);
}

static void __exit fake_exit(void)
{
	size_t i;

	misc_deregister(&misc);
	unregister_die_notifier(&die_block);
	for (i = 0; i < ARRAY_SIZE(probes); i++)
		unregister_kprobe(&probes[i]);
	unregister_kretprobe(&installed);
	vunmap(alias);
	vfree(rows);
	vfree(access_log);
}

module_init(fake_init);
module_exit(fake_exit);
MODULE_DESCRIPTION("A PMU for tests of uopscope where there is none");
MODULE_LICENSE("GPL");
