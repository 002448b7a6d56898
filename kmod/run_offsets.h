/* SPDX-License-Identifier: GPL-2.0 */
/* Where entry.S finds the fields of struct uops_run; checked in contain.c. */
#ifndef UOPSCOPE_RUN_OFFSETS_H
#define UOPSCOPE_RUN_OFFSETS_H

#define RUN_RSP		0x00
#define RUN_GS_BASE	0x08
#define RUN_FLAGS	0x10
#define RUN_OFFSET	0x18
#define RUN_ERROR_CODE	0x20
#define RUN_CR2		0x28
#define RUN_VECTOR	0x30
#define RUN_FAULTED	0x34
#define RUN_STACK	0x38
#define RUN_INSIDE	0x3c
#define RUN_STRICT	0x40
#define RUN_FORCED	0x44
#define RUN_RIP		0x48
#define RUN_AREA	0x50
#define RUN_CODE_STACK	0x58
#define RUN_CR4		0x60
#define RUN_MENDED	0x68
#define RUN_ENTRY	0x70
#define RUN_R15		0x78
#define RUN_SAMPLED	0x80

#endif /* UOPSCOPE_RUN_OFFSETS_H */
