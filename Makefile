# SPDX-License-Identifier: MIT
#
# make all, check and install need no network, no root, and install no package. make demo and make
# verify first install what is missing (scripts/setup).

VERSION := 0.9.0
CC ?= cc
CFLAGS ?= -O2 -g
LDFLAGS ?=
PREFIX ?= /usr/local
BINDIR := $(PREFIX)/bin
MANDIR := $(PREFIX)/share/man
BUILD ?= build

HASH := \#
# 1 if a program with this header links with these libraries; HAVE_X=0 or 1 overrides each probe.
probe = $(shell printf '$(HASH)include <$(1)>\nint main(void){return 0;}\n' | \
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -x c - -o /dev/null $(2) 2>/dev/null && echo 1 || echo 0)
HAVE_JANSSON ?= $(call probe,jansson.h,-ljansson)
HAVE_LIBARCHIVE ?= $(call probe,archive.h,-larchive)

DEFINES := -D_GNU_SOURCE -DTOPLEAK_VERSION='"$(VERSION)"' -DHAVE_JANSSON=$(HAVE_JANSSON) \
	-DHAVE_LIBARCHIVE=$(HAVE_LIBARCHIVE)
WARNINGS := -Wall -Wextra -Wshadow -Wconversion
FLAGS = -std=c17 -pthread $(WARNINGS) -Isrc $(DEFINES) -ffile-prefix-map=$(CURDIR)/= $(CPPFLAGS) $(CFLAGS)
LIBS := -lelf $(if $(filter 1,$(HAVE_JANSSON)),-ljansson) $(if $(filter 1,$(HAVE_LIBARCHIVE)),-larchive)

SOURCES := $(sort $(wildcard src/*.c src/*/*.c))
ifneq ($(HAVE_JANSSON),1)
SOURCES := $(filter-out src/report/json.c,$(SOURCES))
endif
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o)

.PHONY: all check install uninstall demo verify asan bench lint clean
all: $(BUILD)/topleak

$(BUILD)/topleak: $(OBJECTS)
	$(CC) -pthread $(CFLAGS) $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

$(BUILD)/obj/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

# Everything is built anew when the compiler or a flag changes.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(LDFLAGS) $(LIBS)' >$@
.PHONY: FORCE
FORCE:

check: all
	tests/run

asan:
	$(MAKE) BUILD=$(BUILD)/asan CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all'
	TOPLEAK=$(BUILD)/asan/topleak tests/run

demo:
	scripts/setup
	$(MAKE) all
	scripts/demo

verify:
	scripts/setup test
	$(MAKE) check

bench: all
	scripts/setup bench
	bench/run $(BENCHFLAGS)

lint:
	clang-format --dry-run -Werror $(sort $(wildcard src/*.[ch] src/*/*.[ch]))
	clang-tidy --quiet $(SOURCES) -- $(FLAGS)
	mandoc -Tlint -Wwarning man/topleak.1

install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1
	install -m 755 $(BUILD)/topleak $(DESTDIR)$(BINDIR)/topleak
	install -m 644 man/topleak.1 $(DESTDIR)$(MANDIR)/man1/topleak.1

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/topleak $(DESTDIR)$(MANDIR)/man1/topleak.1

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d)
