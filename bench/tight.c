// SPDX-License-Identifier: MIT
//
// tight [PAIRS [THREADS]]: threads that do nothing but malloc and free blocks of 16 to 512 bytes, at the bottom of a thousand
// stacks of 10 to 20 frames.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 1024
#define BATCH 32
#define PATHS 1000

struct state {
	uint64_t random;
	char *live[LIVE];
	unsigned at;
	long done;
};

static long pairs = 4000000;

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	return *random ^= *random << 17;
}

typedef int step(struct state *state, uint64_t path, int depth);
static step step0, step1, step2, step3;
static step *const steps[] = {step0, step1, step2, step3};

__attribute__((noinline)) static int bottom(struct state *state)
{
	for (int i = 0; i < BATCH; i++) {
		char **block = &state->live[state->at++ % LIVE];
		const uint64_t random = next(&state->random);
		free(*block);
		*block = malloc(16 + random % 497);
		**block = (char)random;
	}
	state->done += BATCH;
	return 1;
}

#define STEP(NUMBER, BYTES) \
	static int step##NUMBER(struct state *state, uint64_t path, int depth) \
	{ \
		volatile char room[BYTES]; \
		room[0] = (char)depth; \
		const int result = depth ? steps[path & 3](state, path >> 2, depth - 1) : bottom(state); \
		return result + room[0]; \
	}
STEP(0, 8)
STEP(1, 40)
STEP(2, 100)
STEP(3, 200)

static void *run(void *argument)
{
	struct state state = {.random = 88172645463325252U + (uintptr_t)argument};
	uint64_t order = 1234567;
	while (state.done < pairs) {
		const uint64_t path = (next(&order) % PATHS + 1) * 0x9e3779b97f4a7c15U;
		steps[path & 3](&state, path >> 2, 8 + (int)((path >> 50) % 11));
	}
	for (int i = 0; i < LIVE; i++)
		free(state.live[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	if (argc > 1)
		pairs = atol(argv[1]);
	const int count = argc > 2 ? atoi(argv[2]) : 2;
	for (intptr_t i = 1; i < count; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	run(NULL);
	for (int i = 1; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
