// SPDX-License-Identifier: GPL-2.0
/*
 * The context page and the memory that the code under test may use: five areas,
 * each between unmapped guard pages. The registers point into their middle, so
 * that displacements of both signs stay inside.
 */
#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include "uopscope.h"

/*
 * Physically contiguous memory comes in chunks of the buddy allocator's largest
 * size. Larger areas are runs of neighbours, sought among up to CHUNK_FACTOR times
 * as many chunks and CHUNKS_MORE: a machine that has just started gives them in order.
 */
#define CHUNK_ORDER	10
#define CHUNK_PAGES	BIT(CHUNK_ORDER)
#define CHUNK_FACTOR	2
#define CHUNKS_MORE	16
#define CONTIGUOUS	(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN)

static size_t area_bytes(const struct uops_areas *areas, int i)
{
	return i ? UOPS_AREA_BYTES : areas->r14_bytes;
}

static unsigned int order_of(size_t pages)
{
	return min_t(unsigned int, get_order(pages * PAGE_SIZE), CHUNK_ORDER);
}

static void free_chunks(struct page **chunks, size_t count, unsigned int order)
{
	while (count--)
		if (chunks[count])
			__free_pages(chunks[count], order);
}

static int by_address(const void *one, const void *other)
{
	unsigned long a = page_to_pfn(*(struct page **)one);
	unsigned long b = page_to_pfn(*(struct page **)other);

	return a < b ? -1 : a > b;
}

/* The first of `wanted` neighbours, which are taken out of the chunks; NULL: there are none. */
static struct page *take_run(struct page **chunks, size_t count, size_t wanted)
{
	struct page *found;
	size_t i, length = 0;

	sort(chunks, count, sizeof(*chunks), by_address, NULL);
	for (i = 0; i < count; i++) {
		if (i && page_to_pfn(chunks[i]) == page_to_pfn(chunks[i - 1]) + CHUNK_PAGES)
			length++;
		else
			length = 1;
		if (length == wanted) {
			found = chunks[i + 1 - wanted];
			memset(&chunks[i + 1 - wanted], 0, wanted * sizeof(*chunks));
			return found;
		}
	}
	return NULL;
}

static struct page *alloc_run(size_t wanted)
{
	size_t most = CHUNK_FACTOR * wanted + CHUNKS_MORE, count;
	struct page **chunks = kvcalloc(most, sizeof(*chunks), GFP_KERNEL);
	struct page *found;

	if (!chunks)
		return NULL;
	for (count = 0; count < most; count++) {
		chunks[count] = alloc_pages(CONTIGUOUS | __GFP_NORETRY, CHUNK_ORDER);
		if (!chunks[count] || fatal_signal_pending(current))
			break;
	}
	found = take_run(chunks, count, wanted);
	free_chunks(chunks, most, CHUNK_ORDER);
	kvfree(chunks);
	return found;
}

static void free_contiguous(struct uops_areas *areas, int i)
{
	size_t pages = area_bytes(areas, i) / PAGE_SIZE, n;
	unsigned int order = order_of(pages);

	if (areas->area[i])
		vunmap(areas->area[i]);
	if (areas->pages[i]) {
		for (n = 0; n < pages; n += 1UL << order)
			__free_pages(areas->pages[i][n], order);
		kvfree(areas->pages[i]);
	}
	areas->area[i] = NULL;
	areas->pages[i] = NULL;
}

static void *alloc_contiguous(struct uops_areas *areas, int i)
{
	size_t count = area_bytes(areas, i) / PAGE_SIZE, n;
	unsigned int order = order_of(count);
	struct page **pages, *first;

	pages = kvcalloc(count, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return NULL;
	if (count <= CHUNK_PAGES)
		first = alloc_pages(CONTIGUOUS, order);
	else
		first = alloc_run(DIV_ROUND_UP(count, CHUNK_PAGES));
	if (!first) {
		kvfree(pages);
		return NULL;
	}
	for (n = 0; n < count; n++)
		pages[n] = pfn_to_page(page_to_pfn(first) + n);
	areas->pages[i] = pages;
	areas->area[i] = vmap(pages, count, VM_MAP, PAGE_KERNEL);
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
int uops_areas_alloc(struct uops_areas *areas, bool contiguous, size_t r14_bytes)
{
	int i;

	if (areas->context && areas->contiguous == contiguous &&
	    areas->r14_bytes == r14_bytes)
		return 0;
	uops_areas_free(areas);
	areas->contiguous = contiguous;
	areas->r14_bytes = r14_bytes;
	areas->context = vzalloc(PAGE_SIZE);
	if (!areas->context)
		return -ENOMEM;
	for (i = 0; i < UOPS_NUM_AREAS; i++) {
		areas->area[i] = contiguous ? alloc_contiguous(areas, i) :
					      vzalloc(area_bytes(areas, i));
		if (!areas->area[i]) {
			uops_areas_free(areas);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Before a job: zero the bytes around the addresses that registers have. */
void uops_areas_clean(struct uops_areas *areas)
{
	int i;

	for (i = 0; i < UOPS_NUM_AREAS; i++)
		memset(areas->area[i] + area_bytes(areas, i) / 2 - UOPS_AREA_CLEAN, 0,
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
			(unsigned long)areas->area[i] + area_bytes(areas, i) / 2;
	if (job->flags & UOPS_JOB_ON_DEMAND)
		context[UOPS_CTX_PAGE / 8] = (unsigned long)uops_demand_page();
	context[UOPS_CTX_VALUE / 8] = job->value;
	context[UOPS_CTX_ITERATIONS / 8] = job->iterations;
	context[UOPS_CTX_NUM_COUNTERS / 8] = set->num_counters;
	for (i = 0; i < set->num_counters; i++)
		context[UOPS_CTX_INDEX / 8 + i] = set->counters[i].index;
}
