// SPDX-License-Identifier: MIT
#include "triggers.h"

#include <stdio.h>
#include <unistd.h>

// A rate is that of half a second or more.
#define RATE_INTERVAL 500000000ULL

uint64_t triggers_resident(pid_t pid)
{
	char path[64];
	unsigned long long size, resident = 0;
	snprintf(path, sizeof path, "/proc/%d/statm", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Bytes a second; 0 until it is known.
static uint64_t rate_of(struct triggers *triggers, const struct record_header *header)
{
	const uint64_t now = header->now, allocated = header->allocated_bytes;
	if (!triggers->last_time) {
		triggers->last_time = now;
		triggers->last_allocated = allocated;
	}
	const uint64_t passed = now - triggers->last_time;
	if (now < triggers->last_time || passed < RATE_INTERVAL)
		return 0;
	const double rate = (double)(allocated - triggers->last_allocated) * 1e9 / (double)passed;
	triggers->last_time = now;
	triggers->last_allocated = allocated;
	return (uint64_t)rate;
}

bool triggers_look(struct triggers *triggers, const struct options *options,
	struct record_header *header, uint64_t resident)
{
	const uint64_t rate = rate_of(triggers, header);
	bool any = false;
	for (size_t i = 0; i < options->trigger_count; i++) {
		const struct trigger *trigger = &options->triggers[i];
		const uint64_t value = trigger->kind == TRIGGER_RSS    ? resident
				       : trigger->kind == TRIGGER_LIVE ? header->live_bytes
								       : rate;
		if (triggers->fired[i] || value <= trigger->bytes || value > UINT64_MAX / 2)
			continue;
		triggers->fired[i] = true;
		any = true;
		if (trigger->goes_full)
			__atomic_store_n(&header->mode, RECORD_FULL, __ATOMIC_RELEASE);
	}
	return any;
}
