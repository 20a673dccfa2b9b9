// SPDX-License-Identifier: MIT
//
// "mode=full mean=524288 above=1048576 guard=64 mmap=1 seed=7 log=/a/file log-size=1073741824
// chosen=/a/file", in which spaces in names are written %20 and percent signs %25.
#include "settings.h"
#include "launch.h"

#include <stdlib.h>
#include <string.h>

static uint64_t number(const char *text, size_t length)
{
	uint64_t value = 0;
	for (size_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(text[i] - '0');
	return value;
}

static void name(const char *text, size_t length, char *ret)
{
	size_t used = 0;
	for (size_t i = 0; i < length && used + 1 < PATH_MAX; i++) {
		ret[used++] = text[i];
		if (text[i] == '%' && i + 2 < length) {
			ret[used - 1] = text[i + 2] == '0' ? ' ' : '%';
			i += 2;
		}
	}
	ret[used] = '\0';
}

static void setting(
	const char *key, size_t key_length, const char *value, size_t length, struct settings *ret)
{
	const struct {
		const char *key;
		uint64_t *number;
		char *name;
	} known[] = {
		{"mean", &ret->mean, NULL},
		{"above", &ret->all_above, NULL},
		{"guard", &ret->guard, NULL},
		{"seed", &ret->seed, NULL},
		{"log", NULL, ret->log},
		{"log-size", &ret->log_size, NULL},
		{"chosen", NULL, ret->chosen},
	};
	if (key_length == 4 && !memcmp(key, "mode", 4))
		ret->mode = length && value[0] == 'f'	? RECORD_FULL
			    : length && value[0] == 'o' ? RECORD_OFF
							: RECORD_SAMPLE;
	if (key_length == 4 && !memcmp(key, "mmap", 4))
		ret->mappings = number(value, length) != 0;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (strlen(known[i].key) != key_length || memcmp(key, known[i].key, key_length))
			continue;
		if (known[i].number)
			*known[i].number = number(value, length);
		else
			name(value, length, known[i].name);
	}
}

void settings_read(struct settings *ret)
{
	*ret = (struct settings){.mode = RECORD_SAMPLE, .mean = 512U << 10, .log_size = 1U << 30};
	const char *text = getenv(LAUNCH_SETTINGS);
	while (text && *text) {
		size_t length = strcspn(text, " ");
		const char *equals = memchr(text, '=', length);
		if (equals) {
			size_t key = (size_t)(equals - text);
			setting(text, key, equals + 1, length - key - 1, ret);
		}
		text += length + (text[length] == ' ');
	}
	if (!ret->mean)
		ret->mean = 1;
}
