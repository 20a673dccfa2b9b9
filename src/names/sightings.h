// SPDX-License-Identifier: MIT
//
// Words of a sample of the memory that are addresses of programs that lie low, among numbers and
// texts. What chance brings there lies everywhere: at odd places, in the middle of functions, and
// behind texts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "image/places.h"

// How an address is placed among what there is: where pointers point, or where only chance leads.
enum fitness { FITNESS_POINTER, FITNESS_CHANCE, FITNESS_NEITHER };

struct sighting {
	uint64_t value;
	uint32_t count;
	uint32_t behind_text; // of these, the word before is characters only
	enum fitness fitness;
};

struct sightings {
	struct sighting *list; // sorted by value; owned
	size_t count;
};

// Look through heaps and anonymous memory for addresses from start to end. fit tells how each is
// placed. False if there is no memory. *ret is to be released with sightings_deinit.
bool sightings_find(const struct image *image, const struct places *places, uint64_t start,
	uint64_t end, enum fitness (*fit)(const void *context, uint64_t address),
	const void *context, struct sightings *ret);
void sightings_deinit(struct sightings *sightings);

// Whether a value is there by chance: mostly as the end of a text; or about as often as so many
// near it that lie where no pointer points, that some had to lie where one could. likelihood: of
// how many places by chance one could be a pointer.
bool sightings_are_chance(const struct sightings *sightings, uint64_t value, unsigned likelihood);
