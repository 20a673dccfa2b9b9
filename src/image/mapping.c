// SPDX-License-Identifier: MIT
#include "image/mapping.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

// Two dumps at a time are enough; files beyond these are read.
#define MAPPINGS_MAX 8

struct mapping {
	atomic_uintptr_t start; // 0: free
	atomic_size_t size;	// bytes
	atomic_bool lost;	// the file shrank: some bytes are zeros instead
};

// A handler of signals is given nothing else than the address, so this must be global.
static struct mapping mappings[MAPPINGS_MAX];
static size_t page_size;

static struct mapping *mapping_at(uintptr_t address)
{
	for (size_t i = 0; i < MAPPINGS_MAX; i++) {
		const uintptr_t start = atomic_load(&mappings[i].start);
		if (start != 0 && address - start < atomic_load(&mappings[i].size))
			return &mappings[i];
	}
	return NULL;
}

// The page is behind the end of the file: put zeros there and behind it, and note it first, so that
// no thread can take them for the file's.
static void bus_handle(int number, siginfo_t *info, void *context)
{
	(void)context;
	const uintptr_t address = (uintptr_t)info->si_addr;
	struct mapping *mapping = mapping_at(address);
	if (mapping != NULL) {
		const uintptr_t page = address & ~(uintptr_t)(page_size - 1);
		const size_t size =
			atomic_load(&mapping->start) + atomic_load(&mapping->size) - page;
		atomic_store(&mapping->lost, true);
		// The address comes from the kernel as it is.
		if (mmap((void *)page, size, PROT_READ, // NOLINT(performance-no-int-to-ptr)
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
			    0) != MAP_FAILED)
			return;
	}
	// What happens again now ends the program as it would have without a handler.
	signal(number, SIG_DFL);
}

static void bus_init(void)
{
	struct sigaction action = {.sa_sigaction = bus_handle, .sa_flags = SA_SIGINFO | SA_RESTART};
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	sigaction(SIGBUS, &action, NULL);
}

// Where the address space is limited, it is left to what needs memory.
static bool address_space_limited(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

struct mapping *mapping_create(int fd, uint64_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (size == 0 || size > SIZE_MAX / 4 || address_space_limited())
		return NULL;
	struct mapping *mapping = mappings;
	while (mapping < mappings + MAPPINGS_MAX && atomic_load(&mapping->start) != 0)
		mapping++;
	if (mapping == mappings + MAPPINGS_MAX)
		return NULL;
	pthread_once(&once, bus_init);
	void *start = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		return NULL;
	atomic_store(&mapping->lost, false);
	atomic_store(&mapping->size, (size_t)size);
	atomic_store(&mapping->start, (uintptr_t)start);
	return mapping;
}

void mapping_destroy(struct mapping *mapping)
{
	if (mapping == NULL)
		return;
	void *start = (void *)atomic_load(&mapping->start); // NOLINT(performance-no-int-to-ptr)
	const size_t size = atomic_load(&mapping->size);
	atomic_store(&mapping->start, 0);
	munmap(start, size);
}

bool mapping_read(const struct mapping *mapping, uint64_t offset, void *buffer, size_t size)
{
	const uintptr_t start = atomic_load_explicit(&mapping->start, memory_order_relaxed);
	// Where it is mapped is a number, so that the handler can compare it.
	memcpy(buffer, (const void *)(start + offset), size); // NOLINT(performance-no-int-to-ptr)
	return !atomic_load(&mapping->lost);
}
