// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for code that reads and writes anywhere: while it runs the CPU uses page
 * tables of our own. Their upper half is the kernel's. Their lower half has the blob,
 * which runs there at UOPS_STAGE (so that addresses relative to RIP are in that half,
 * too), and the pages that faults have asked for. Each of these is the same page of
 * memory, as in BHive's harness (Chen et al., "BHive", IISWC 2019).
 *
 * A fault ends the run like any other. Its page is mapped from here, with interrupts
 * on, and the repetition begins again.
 * Nothing here is a user's page, so SMAP and SMEP do not matter. Neither the scheduler
 * nor TLB flushes of other CPUs may see page tables that are not the task's. So
 * interrupts are off as long as these are loaded (no UOPS_BATCH_MASK_LVT).
 *
 * Sources: Intel SDM volume 3, 4.5 (4-level and 5-level paging), 4.10.4 (writes of
 * CR3), 4.7 (error codes), 4.4.1 of its LASS chapter: supervisor accesses by the
 * highest bit of the address.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <asm/page.h>
#include <asm/pgtable.h>
#include <asm/processor.h>
#include <asm/processor-flags.h>
#include <asm/special_insns.h>
#include <asm/trap_pf.h>
#include <asm/trapnr.h>
#include "uopscope.h"

#define ENTRIES		512
#define LOWER_HALF	256	/* entries of the top table */
#define STAGE_PAGES	(UOPS_CODE_BYTES / PAGE_SIZE + 1)	/* and one of INT3 */
#define CR4_LASS	BIT_ULL(27)
#define NO_FLUSH	BIT_ULL(63)
/* A write of CR3 empties the TLB: so many pages are touched before the run. */
#define MOST_TOUCHED	64

static struct {
	u64 *top;	/* of two pages, the first: the kernel's entry tests that bit (PTI) */
	void *page;	/* serves all addresses */
	u32 pages;
	u64 touched[MOST_TOUCHED];
	u64 cr3, cr4;	/* of the kernel, while ours are loaded */
} demand;

int uops_demand_init(void)
{
	demand.top = (u64 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, 1);
	demand.page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!demand.top || !demand.page) {
		uops_demand_exit();
		return -ENOMEM;
	}
	return 0;
}

void uops_demand_exit(void)
{
	if (demand.top)
		uops_demand_clear();
	free_pages((unsigned long)demand.top, 1);
	free_page((unsigned long)demand.page);
	demand.top = NULL;
	demand.page = NULL;
}

static int num_levels(void)
{
	return __read_cr4() & X86_CR4_LA57 ? 5 : 4;
}

static u64 *table_of(u64 entry)
{
	return __va(entry & PTE_PFN_MASK);
}

/* The tables that entries of one of this level lead to; pages themselves are not ours. */
static void free_below(u64 *table, u32 entries, int level)
{
	u32 i;

	for (i = 0; i < entries; i++) {
		if (!(table[i] & _PAGE_PRESENT))
			continue;
		if (level > 2)
			free_below(table_of(table[i]), ENTRIES, level - 1);
		free_page((unsigned long)table_of(table[i]));
		table[i] = 0;
	}
}

/* Nothing is running. */
void uops_demand_clear(void)
{
	free_below(demand.top, LOWER_HALF, num_levels());
	demand.pages = 0;
}

static u64 *next_table(u64 *entry)
{
	u64 *table;

	if (*entry & _PAGE_PRESENT)
		return table_of(*entry);
	table = (u64 *)get_zeroed_page(GFP_KERNEL);
	if (table)
		*entry = __pa(table) | _KERNPG_TABLE;
	return table;
}

static int map_page(u64 address, u64 physical, pgprot_t protection)
{
	u64 *table = demand.top;
	int level;

	for (level = num_levels(); level > 1; level--) {
		int shift = PAGE_SHIFT + 9 * (level - 1);

		table = next_table(&table[(address >> shift) % ENTRIES]);
		if (!table)
			return -ENOMEM;
	}
	table[(address >> PAGE_SHIFT) % ENTRIES] =
		physical | (pgprot_val(protection) & ~(u64)_PAGE_GLOBAL);
	return 0;
}

static int map_blob(void)
{
	int error = 0;
	u32 i;

	for (i = 0; i < STAGE_PAGES && !error; i++)
		error = map_page(UOPS_STAGE + i * PAGE_SIZE, uops_code_physical(i),
				 PAGE_KERNEL_ROX);
	return error;
}

/* Before the first repetition of a job. */
int uops_demand_begin(const struct uops_job *job)
{
	if (!(job->flags & UOPS_JOB_KEEP_PAGES))
		uops_demand_clear();
	return map_blob();
}

void *uops_demand_page(void)
{
	return demand.page;
}

u32 uops_demand_pages(void)
{
	return demand.pages;
}

/*
 * Map the page that the last run lacked; false if it ended otherwise, or where
 * nothing may be mapped.
 */
bool uops_demand_serve(void)
{
	u64 address = uops_run.cr2 & PAGE_MASK;

	if (!uops_run.faulted || uops_run.forced || uops_run.timed_out ||
	    uops_run.vector != X86_TRAP_PF || uops_run.offset == UOPS_NO_OFFSET ||
	    uops_run.error_code & ~(u64)X86_PF_WRITE)
		return false;
	if (address < UOPS_FIRST_ADDRESS || address >= UOPS_END_ADDRESS ||
	    demand.pages == UOPS_MAX_PAGES)
		return false;
	if (map_page(address, __pa(demand.page), PAGE_KERNEL))
		return false;
	if (demand.pages < MOST_TOUCHED)
		demand.touched[demand.pages] = address;
	demand.pages++;
	return true;
}

static void put_cr3(u64 value)
{
	asm volatile("mov %0, %%cr3" : : "r" (value) : "memory");
}

static void put_cr4(u64 value)
{
	asm volatile("mov %0, %%cr4" : : "r" (value) : "memory");
}

static void touch_pages(void)
{
	u32 i;

	for (i = 0; i < min_t(u32, demand.pages, MOST_TOUCHED); i++)
		asm volatile("movb (%0), %%al" : : "r" (demand.touched[i]) : "rax", "memory");
}

/*
 * Interrupts are off. What the TLB has of ours is flushed by each write of CR3: the
 * kernel does not know that it is there, so it could not do so itself.
 */
void uops_demand_load(void)
{
	demand.cr3 = __read_cr3();
	demand.cr4 = __read_cr4();
	memcpy(demand.top + LOWER_HALF, table_of(demand.cr3 & CR3_ADDR_MASK) + LOWER_HALF,
	       (ENTRIES - LOWER_HALF) * sizeof(u64));
	if (demand.cr4 & CR4_LASS)
		put_cr4(demand.cr4 & ~CR4_LASS);
	put_cr3(__sme_pa(demand.top));
	touch_pages();
}

void uops_demand_unload(void)
{
	put_cr3(demand.cr3 | (demand.cr4 & X86_CR4_PCIDE ? NO_FLUSH : 0));
	if (demand.cr4 & CR4_LASS)
		put_cr4(demand.cr4);
}
