// SPDX-License-Identifier: GPL-2.0
/*
 * The context page and the memory that the code under test may use: five areas,
 * each between unmapped guard pages. The registers point into their middle, so
 * that displacements of both signs stay inside.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include "uopscope.h"

#define AREA_PAGES	(UOPS_AREA_BYTES / PAGE_SIZE)
#define AREA_ORDER	get_order(UOPS_AREA_BYTES)

static void free_contiguous(struct uops_areas *areas, int i)
{
	if (areas->area[i])
		vunmap(areas->area[i]);
	if (areas->pages[i]) {
		__free_pages(areas->pages[i][0], AREA_ORDER);
		kvfree(areas->pages[i]);
	}
	areas->area[i] = NULL;
	areas->pages[i] = NULL;
}

static void *alloc_contiguous(struct uops_areas *areas, int i)
{
	struct page **pages, *first;
	u32 n;

	pages = kvcalloc(AREA_PAGES, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	first = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN, AREA_ORDER);
	if (!first) {
		kvfree(pages);
		return NULL;
	}
	for (n = 0; n < AREA_PAGES; n++)
		pages[n] = first + n;
	areas->pages[i] = pages;
	areas->area[i] = vmap(pages, AREA_PAGES, VM_MAP, PAGE_KERNEL);
	return areas->area[i];
}

void uops_areas_free(struct uops_areas *areas)
{
	int i;

	for (i = 0; i < UOPS_NUM_AREAS; i++) {
		if (areas->contiguous) {
			free_contiguous(areas, i);
		} else {
			vfree(areas->area[i]);
			areas->area[i] = NULL;
		}
	}
	vfree(areas->context);
	areas->context = NULL;
}

/* Areas that are there already are kept if they are of the kind asked for. */
int uops_areas_alloc(struct uops_areas *areas, bool contiguous)
{
	int i;

	if (areas->context && areas->contiguous == contiguous)
		return 0;
	uops_areas_free(areas);
	areas->contiguous = contiguous;
	areas->context = vzalloc(PAGE_SIZE);
	if (!areas->context)
		return -ENOMEM;
	for (i = 0; i < UOPS_NUM_AREAS; i++) {
		areas->area[i] = contiguous ? alloc_contiguous(areas, i) :
					      vzalloc(UOPS_AREA_BYTES);
		if (!areas->area[i]) {
			uops_areas_free(areas);
			return -ENOMEM;
		}
	}
	return 0;
}

/* What is around the registers is zero when a job begins. */
void uops_areas_clean(struct uops_areas *areas)
{
	int i;

	for (i = 0; i < UOPS_NUM_AREAS; i++)
		memset(areas->area[i] + UOPS_AREA_BYTES / 2 - UOPS_AREA_CLEAN, 0,
		       2 * UOPS_AREA_CLEAN);
	((u64 *)areas->context)[UOPS_CTX_ONCE / 8] = 0;
}

void uops_areas_fill(struct uops_areas *areas, const struct uops_job *job,
		     const struct uops_counter_set *set)
{
	u64 *context = areas->context;
	u64 once = context[UOPS_CTX_ONCE / 8];
	u32 i;

	memset(context, 0, PAGE_SIZE);
	context[UOPS_CTX_ONCE / 8] = once;
	for (i = 0; i < UOPS_NUM_AREAS; i++)
		context[UOPS_CTX_AREA_R14 / 8 + i] =
			(unsigned long)areas->area[i] + UOPS_AREA_BYTES / 2;
	if (job->flags & UOPS_JOB_ON_DEMAND)
		context[UOPS_CTX_PAGE / 8] = (unsigned long)uops_demand_page();
	context[UOPS_CTX_VALUE / 8] = job->value;
	context[UOPS_CTX_ITERATIONS / 8] = job->iterations;
	context[UOPS_CTX_NUM_COUNTERS / 8] = set->num_counters;
	for (i = 0; i < set->num_counters; i++)
		context[UOPS_CTX_INDEX / 8 + i] = set->counters[i].index;
}
