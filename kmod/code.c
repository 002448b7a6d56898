// SPDX-License-Identifier: GPL-2.0
/*
 * The executable area (area.S) and its writable alias.
 *
 * The module's text is mapped read-execute; vmap() of the same pages gives a
 * mapping that is read-write without execute. No text is ever both.
 */
#include <linux/mm.h>
#include <linux/pfn.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include "uopscope.h"

#define AREA_PAGES	(UOPS_CODE_BYTES / PAGE_SIZE)
#define INT3		0xcc
#define ENTRY_OFFSET	8	/* of a blob, behind its literal */

static u8 *alias;
static u32 used_bytes;

int uops_code_init(void)
{
	u8 *text = uops_area;
	struct page **pages;
	u32 i;

	/* objtool would see an address in the area as the target of a jump */
	OPTIMIZER_HIDE_VAR(text);
	if (!PAGE_ALIGNED(text))
		return -EINVAL;
	pages = kmalloc_array(AREA_PAGES, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < AREA_PAGES; i++)
		pages[i] = vmalloc_to_page(text + i * PAGE_SIZE);
	alias = vmap(pages, AREA_PAGES, VM_MAP, PAGE_KERNEL);
	kfree(pages);
	uops_code_place(false);
	return alias ? 0 : -ENOMEM;
}

void uops_code_exit(void)
{
	vunmap(alias);
	alias = NULL;
}

/* Where blobs run: in the module's text, or at their second place (demand.c). */
void uops_code_place(bool on_demand)
{
	u8 *text = uops_area;

	OPTIMIZER_HIDE_VAR(text);
	uops_run.on_demand = on_demand;
	uops_run.area = on_demand ? UOPS_STAGE : (unsigned long)text;
	uops_run.entry = uops_run.area + ENTRY_OFFSET;
}

/* Where a page of the area is in memory; the last one is behind the longest blob. */
u64 uops_code_physical(u32 page)
{
	u8 *text = uops_area;

	OPTIMIZER_HIDE_VAR(text);
	return PFN_PHYS(vmalloc_to_pfn(text + page * PAGE_SIZE));
}

/* Put a blob in place; what a longer one left behind becomes INT3 again. */
int uops_code_install(u64 user_code, u32 bytes, u64 context)
{
	u32 left = used_bytes;

	used_bytes = max(bytes, left);
	if (copy_from_user(alias, u64_to_user_ptr(user_code), bytes))
		return -EFAULT;
	if (left > bytes)
		memset(alias + bytes, INT3, left - bytes);
	used_bytes = bytes;
	memcpy(alias, &context, sizeof(context));
	return 0;
}

/*
 * Put one INT3 into the blob, which may be running on another CPU: guard.c says in
 * which order. False: there is no such byte.
 */
bool uops_code_poison(u32 offset)
{
	if (offset >= used_bytes)
		return false;
	WRITE_ONCE(alias[offset], INT3);
	return true;
}

/* Nothing is running. */
void uops_code_clear(void)
{
	memset(alias, INT3, used_bytes);
}
