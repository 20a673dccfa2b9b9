// SPDX-License-Identifier: MIT
//
// Counting a stream that passes by once. The words listed in a table are counted there, all others
// in cells; a word is listed once its cell is full enough. What it may have lost by then is its
// slack: the load that its cell had.
#pragma once

#include "count/best.h"
#include "count/count.h"

struct stream;

// Use up to memory bytes, for the best top words.
bool stream_create(size_t top, size_t memory, struct error *err, struct stream **ret);
void stream_destroy(struct stream *stream);
bool stream_feed(struct stream *stream, const void *words, size_t count, unsigned word_size,
	struct error *err);
// Zeros that are in no buffer.
void stream_feed_zeros(struct stream *stream, uint64_t count);
uint64_t stream_words(const struct stream *stream);
// Call visit with each listed word, as it lies in memory, and the interval of its count.
void stream_visit(const struct stream *stream,
	void (*visit)(void *context, uint64_t word, uint64_t low, uint64_t high), void *context);
// The most times that a word that is not listed can have occurred.
uint64_t stream_unlisted_max(const struct stream *stream);
