/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The executable area: pages of INT3 in the module's own text. Blobs are written
 * into it through a second mapping that is writable and not executable. The last
 * page always stays INT3: what runs off the end of the longest blob stops there.
 * So does the page before the first: the target of a short jump to before a blob.
 */
#include <linux/linkage.h>
#include "compat.h"

	.section .text.uops_area, "ax", @progbits
	.balign 4096
	.fill 4096, 1, 0xcc
SYM_CODE_START_NOALIGN(uops_area)
	ANNOTATE_NOENDBR
	.fill 8, 1, 0xcc
	.fill 0x101000 - 8, 1, 0xcc
SYM_CODE_END(uops_area)
