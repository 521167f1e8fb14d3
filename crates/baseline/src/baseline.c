/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses a processor that lacks what this program was compiled for, before any code that needs it.
 * Compiled for the oldest x86-64, and run by the dynamic linker before every other initializer.
 */
#include <cpuid.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "extensions.h"

/* CPUID 1 ECX, CPUID 7.0 EBX, CPUID 0x80000001 ECX, XCR0, CPUID 7.0 ECX. */
#define WORDS 5
#define XCR0 3
#define OSXSAVE (1u << 27)

/* The exit status of usage errors: as with these, another attempt will not help. */
#define EXIT_STATUS 2

static const struct {
	const char *name;
	unsigned word;
	uint32_t bits;
} extensions[] = { ADIT_EXTENSIONS };

/* Appends what fits; `out` stays terminated. */
static void append(char *out, size_t room, const char *text)
{
	size_t used = strlen(out);

	for (; *text && used + 1 < room; text++)
		out[used++] = *text;
	out[used] = 0;
}

/* Writes the names of the extensions that `words` lack, separated by ", "; returns how many. */
size_t adit_baseline_missing(const uint32_t *words, char *out, size_t room)
{
	size_t missing = 0;

	out[0] = 0;
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		if ((words[extensions[i].word] & extensions[i].bits) == extensions[i].bits)
			continue;
		if (missing++)
			append(out, room, ", ");
		append(out, room, extensions[i].name);
	}
	return missing;
}

/* What this processor and its operating system offer. */
void adit_baseline_read(uint32_t *words)
{
	uint32_t a, b, c, d;

	memset(words, 0, WORDS * sizeof(words[0]));
	if (__get_cpuid(1, &a, &b, &c, &d))
		words[0] = c;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		words[1] = b;
		words[4] = c;
	}
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		words[2] = c;
	if (words[0] & OSXSAVE) {
		__asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
		words[XCR0] = a;
	}
}

static void check(int argc, char **argv)
{
	uint32_t words[WORDS];
	char names[512], text[768] = "";
	const char *slash, *program = argc > 0 ? argv[0] : "adit";

	adit_baseline_read(words);
	if (!adit_baseline_missing(words, names, sizeof(names)))
		return;
	slash = strrchr(program, '/');
	append(text, sizeof(text), slash ? slash + 1 : program);
	append(text, sizeof(text), ": this processor lacks ");
	append(text, sizeof(text), names);
	append(text, sizeof(text), "; this program was built for " ADIT_BASELINE_LEVEL
		" (servers from 2015 on; in a virtual machine, pass the host's CPU model through)\n");
	/* Whoever has closed standard error sees the status. */
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(EXIT_STATUS);
	_exit(EXIT_STATUS);
}

/* Before the initializers of shared libraries, DPDK's among them. */
__attribute__((section(".preinit_array"), used))
static void (*const before_all)(int, char **) = check;
