/* SPDX-License-Identifier: Apache-2.0 */
/* What blobs.S has: code of every kind, and what is to be reported of it. */
#ifndef BLOBS_H
#define BLOBS_H

/* The tables end with a row without a name. */
struct blob {
	const char *name;
	const unsigned char *start, *end;
	unsigned int status, vector, changed, offset;
};

/* Another outcome that is right, of the kind with that very name. */
struct also {
	const char *name;
	unsigned int status, vector, changed, unused;
};

extern const struct blob blobs[];
extern const struct also also[];

#endif
