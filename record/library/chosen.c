// SPDX-License-Identifier: MIT
#include "chosen.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "modules.h"
#include "settings.h"

#define PLACES_MOST 65536

struct place {
	uint8_t id[32];
	uint64_t start, end;
};

bool chosen_any;
static struct place *places;
static size_t count;

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *number(const char *at, uint64_t *ret)
{
	uint64_t value = 0;
	while (*at == ' ')
		at++;
	for (; digit(*at) >= 0; at++)
		value = value << 4 | (uint64_t)digit(*at);
	*ret = value;
	return at;
}

static void line_read(const char *line)
{
	struct place *place = &places[count];
	size_t bytes = 0;
	while (digit(line[0]) >= 0 && digit(line[1]) >= 0 && bytes < sizeof place->id) {
		place->id[bytes++] = (uint8_t)(digit(line[0]) << 4 | digit(line[1]));
		line += 2;
	}
	line = number(line, &place->start);
	number(line, &place->end);
	count += bytes > 0;
}

void chosen_init(const struct settings *settings)
{
	char text[4096];
	size_t used = 0;
	const int file = *settings->chosen ? open(settings->chosen, O_RDONLY | O_CLOEXEC) : -1;
	if (file < 0)
		return;
	places = memory_private(PLACES_MOST * sizeof *places);
	for (ssize_t got; places && (got = read(file, text + used, sizeof text - 1 - used)) > 0;) {
		used += (size_t)got;
		text[used] = '\0';
		char *line = text, *end;
		while ((end = strchr(line, '\n')) && count < PLACES_MOST) {
			line_read(line);
			line = end + 1;
		}
		used = strlen(line);
		memmove(text, line, used);
	}
	close(file);
	chosen_any = count > 0;
}

bool chosen_at(uint64_t pc)
{
	struct unwind_info info;
	const uint32_t module = chosen_any ? module_at(pc, &info) : 0;
	if (!module)
		return false;
	const struct record_module *of =
		(struct record_module *)memory_start(RECORD_MODULES) + module - 1;
	const uint64_t at = pc - of->bias;
	for (size_t i = 0; i < count; i++)
		if (!memcmp(of->id, places[i].id, sizeof of->id) &&
			(!places[i].end || (at >= places[i].start && at < places[i].end)))
			return true;
	return false;
}
