# SPDX-License-Identifier: MIT
#
# make all, check, install and dist need no network, no root, and install no package. make demo,
# verify, bench, static, deb and check-packages first install what is missing (scripts/setup).

VERSION := 0.9.0
CC ?= cc
CFLAGS ?= -O2 -g
LDFLAGS ?=
PREFIX ?= /usr/local
BINDIR := $(PREFIX)/bin
MANDIR := $(PREFIX)/share/man
DATADIR := $(PREFIX)/share/topleak
# Where each shell looks for completions, and the file's name there.
COMPLETIONS = bash:bash-completion/completions/topleak \
	zsh:zsh/site-functions/_topleak \
	fish:fish/vendor_completions.d/topleak.fish
BUILD ?= build
ifneq ($(words $(BUILD)),1)
$(error BUILD: make takes no folder with a space in its name)
endif
# 1: a program that needs no library where it runs (make static).
STATIC ?= 0
# 1: print each command instead of one short line for each file.
V ?= 0
say = $(if $(filter 1,$(V)),,@printf '%-5s %s\n' $(1) '$(2)';)

HASH := \#
# 1 if a program with this header links with these libraries; HAVE_X=0 or 1 overrides each probe.
probe = $(shell printf '$(HASH)include <$(1)>\nint main(void){return 0;}\n' | \
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -x c - -o /dev/null $(2) 2>/dev/null && echo 1 || echo 0)
LIBRARIES := JANSSON LIBARCHIVE LIBDW LIBIBERTY
HAVE_JANSSON := $(or $(HAVE_JANSSON),$(call probe,jansson.h,-ljansson))
HAVE_LIBARCHIVE := $(or $(HAVE_LIBARCHIVE),$(call probe,archive.h,-larchive))
HAVE_LIBDW := $(or $(HAVE_LIBDW),$(call probe,elfutils/libdwfl.h,-ldw -lelf))
HAVE_LIBIBERTY := $(or $(HAVE_LIBIBERTY),$(call probe,libiberty/demangle.h,-liberty))
HAVE_LIBELF := $(call probe,libelf.h,-lelf)
have = $(if $(filter 1,$(HAVE_$(1))),$(2))

DEFINES := -D_GNU_SOURCE -DTOPLEAK_VERSION='"$(VERSION)"' -DTOPLEAK_STATIC=$(STATIC) \
	$(foreach library,$(LIBRARIES),-DHAVE_$(library)=$(HAVE_$(library)))
WARNINGS := -Wall -Wextra -Wshadow -Wconversion
# What makes a fault harder to exploit. Checks of buffers need optimization, and are left to the user's
# own flags, or to a sanitizer, where these have them.
fortify = $(shell printf '$(HASH)include <stdio.h>\n' | \
	$(CC) -O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -x c -c - -o /dev/null 2>/dev/null && echo 3 || echo 2)
HARDEN := -fPIE -fstack-protector-strong $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),$(if \
	$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS))$(findstring -fsanitize,$(CFLAGS)),,\
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(fortify)))
HARDEN_LINK := $(if $(filter 1,$(STATIC)),,-pie) -Wl,-z,relro,-z,now
FLAGS = -std=c17 -pthread $(WARNINGS) -Isrc $(DEFINES) '-ffile-prefix-map=$(CURDIR)=.' $(HARDEN) $(CPPFLAGS) $(CFLAGS)
LIBS := $(call have,LIBDW,-ldw) -lelf $(call have,LIBIBERTY,-liberty) $(call have,JANSSON,-ljansson) \
	$(call have,LIBARCHIVE,-larchive) -ldl -lm
ifeq ($(STATIC),1)
# What those need in turn, but for what tools/static.c keeps out.
LIBS += -llzma -lzstd -llz4 -lbz2 -lz -lm
LINK_STATIC := -static -s -Wl,--no-warnings,-Map=$(BUILD)/topleak.map
endif

SOURCES := $(sort $(wildcard src/*.c src/*/*.c))
ifneq ($(HAVE_JANSSON),1)
SOURCES := $(filter-out src/report/json.c,$(SOURCES))
endif
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o)

ifeq ($(STATIC),1)
OBJECTS += $(BUILD)/obj/static.o
endif

.PHONY: all check test-programs fuzz install uninstall demo verify asan tsan bench lint picture dist deb static check-packages clean
all: $(BUILD)/topleak $(BUILD)/completions/done record

$(BUILD)/topleak: $(OBJECTS)
	$(call say,LINK,$@)$(CC) -pthread $(CFLAGS) $(HARDEN_LINK) $(LDFLAGS) $(LINK_STATIC) -o $@ $(OBJECTS) $(LIBS)

$(BUILD)/obj/%.o: tools/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

# A program for this machine, run once.
$(BUILD)/completions/done: $(BUILD)/obj/completions.o $(BUILD)/obj/cli/options.o $(filter $(BUILD)/obj/base/%,$(OBJECTS))
	@mkdir -p $(@D)
	$(call say,LINK,$(BUILD)/obj/completions)$(CC) -pthread $(CFLAGS) $(LDFLAGS) -o $(BUILD)/obj/completions $^
	@for shell in bash zsh fish; do $(BUILD)/obj/completions $$shell >$(@D)/topleak.$$shell || exit; done
	@touch $@

$(BUILD)/obj/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

# Only what is called after a look at the processor may use what not all have.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null)),)
$(BUILD)/obj/alloc/pointers_avx2.o $(BUILD)/obj/names/text_avx2.o $(BUILD)/obj/types/sift_avx2.o: FLAGS += -mavx2
endif

# Everything is built anew when the compiler or a flag changes.
$(BUILD)/flags: FORCE
	@[ '$(HAVE_LIBELF)' = 1 ] || { echo '$(CC) cannot build with libelf; scripts/setup installs what is missing' >&2; exit 1; }
	@mkdir -p $(@D)
	@echo '$(CC) $(FLAGS) $(HARDEN_LINK) $(LDFLAGS) $(LIBS)' | cmp -s - $@ || echo '$(CC) $(FLAGS) $(HARDEN_LINK) $(LDFLAGS) $(LIBS)' >$@
.PHONY: FORCE
FORCE:

# The engine's own test, beside topleak: where tests/engine.bats looks for it.
$(BUILD)/test-engine: tests/engine.c $(filter $(BUILD)/obj/base/% $(BUILD)/obj/count/%,$(OBJECTS))
	$(call say,LINK,$@)$(CC) $(FLAGS) $(LDFLAGS) -o $@ $^

$(BUILD)/test-filter: tests/filter.c $(addprefix $(BUILD)/obj/names/,filter.o kinds.o text_avx2.o) \
		$(filter $(BUILD)/obj/base/%,$(OBJECTS))
	$(call say,LINK,$@)$(CC) $(FLAGS) $(LDFLAGS) -o $@ $^

$(BUILD)/test-stacks: tests/stacks.c record/format.h
	$(call say,LINK,$@)$(CC) $(FLAGS) $(LDFLAGS) -Wl,--build-id -o $@ $<

$(BUILD)/test-blocks $(BUILD)/test-heap $(BUILD)/test-lost $(BUILD)/test-runtime $(BUILD)/test-sizes: $(BUILD)/test-%: tests/%.c $(filter-out $(BUILD)/obj/main.o,$(OBJECTS))
	$(call say,LINK,$@)$(CC) $(FLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Fuzzing targets, one program each: with clang's engine, or without it to run kept inputs.
FUZZ := $(filter-out replay $(if $(filter 1,$(HAVE_JANSSON)),,answer report saved) $(if $(filter 1,$(HAVE_LIBARCHIVE)),,packed),$(sort \
	$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c))))
FUZZ_SECONDS ?= 60
FUZZ_ENGINE ?= tests/fuzz/replay.c
$(BUILD)/fuzz-%: tests/fuzz/%.c tests/fuzz/fuzz.h tests/fuzz/replay.c $(filter-out $(BUILD)/obj/main.o,$(OBJECTS))
	$(call say,LINK,$@)$(CC) $(FLAGS) $(LDFLAGS) -o $@ $< $(FUZZ_ENGINE) $(filter %.o,$^) $(LIBS)

fuzz:
	$(MAKE) BUILD=$(BUILD)/fuzz CC=clang FUZZ_ENGINE=-fsanitize=fuzzer \
		CFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined' \
		$(FUZZ:%=$(BUILD)/fuzz/fuzz-%)
	tests/fuzz/seed $(BUILD)/fuzz/corpus
	for target in $(FUZZ); do \
		$(BUILD)/fuzz/fuzz-$$target -max_total_time=$(FUZZ_SECONDS) -timeout=20 -print_final_stats=1 \
			-artifact_prefix=$(BUILD)/fuzz/$$target- $(BUILD)/fuzz/corpus/$$target || exit; \
	done

# TESTS=tests/elf.bats runs only that.
test-programs: all $(addprefix $(BUILD)/test-,blocks engine filter heap lost recording runtime sizes stacks) $(FUZZ:%=$(BUILD)/fuzz-%)

check: test-programs
	TOPLEAK=$(BUILD)/topleak tests/run $(TESTS)

asan:
	$(MAKE) BUILD=$(BUILD)/asan CFLAGS='-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all' test-programs
	TOPLEAK=$(BUILD)/asan/topleak tests/run

# The tests in which threads have much to do.
tsan:
	$(MAKE) BUILD=$(BUILD)/tsan CFLAGS='-O1 -g -fsanitize=thread' test-programs
	TOPLEAK=$(BUILD)/tsan/topleak tests/run $(or $(TESTS),$(TSAN_TESTS:%=tests/%.bats))
TSAN_TESTS := engine property find types heap leaks fuzz memory inputs-pipe

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

picture: all
	scripts/bench-core 32M $(BUILD)/demo/service.core
	scripts/picture $(BUILD)/topleak -k data -n 9 $(BUILD)/demo/service.core >docs/topleak.svg

dist:
	scripts/packaging/dist $(VERSION) $(BUILD)

deb:
	scripts/setup package
	scripts/packaging/deb $(VERSION) $(BUILD)

static:
	scripts/setup package
	$(MAKE) BUILD=$(BUILD)/static STATIC=1 HAVE_JANSSON=1 HAVE_LIBARCHIVE=1 HAVE_LIBDW=1 HAVE_LIBIBERTY=1 \
		$(BUILD)/static/topleak
	scripts/packaging/licenses $(BUILD)/static/topleak.map >$(BUILD)/static/topleak.licenses

# Needs root, the network, and some minutes.
check-packages:
	scripts/setup package
	tests/run tests/packages/packages.bats

lint:
	clang-format --dry-run -Werror $(sort $(wildcard src/*.[ch] src/*/*.[ch] tools/*.c record/*.h record/*/*.[ch]))
	# One by one: clang-tidy 14 loses track of va_lists from one file to the next.
	for source in $(SOURCES); do clang-tidy --quiet $$source -- $(FLAGS) || failed=1; done; [ -z "$$failed" ]
	mandoc -Tlint -Wwarning man/*.[15]

install: all install-record
	install -D -m 755 $(BUILD)/topleak '$(DESTDIR)$(BINDIR)/topleak'
	install -D -m 644 man/topleak.1 '$(DESTDIR)$(MANDIR)/man1/topleak.1'
	install -D -m 644 share/topleak.schema.json '$(DESTDIR)$(DATADIR)/topleak.schema.json'
	for entry in $(COMPLETIONS); do \
		install -D -m 644 $(BUILD)/completions/topleak.$${entry%%:*} '$(DESTDIR)$(PREFIX)'/share/$${entry#*:} || exit; \
	done

uninstall: uninstall-record
	rm -f '$(DESTDIR)$(BINDIR)/topleak' '$(DESTDIR)$(MANDIR)/man1/topleak.1' '$(DESTDIR)$(DATADIR)/topleak.schema.json'
	rmdir '$(DESTDIR)$(DATADIR)' 2>/dev/null || true
	for entry in $(COMPLETIONS); do rm -f '$(DESTDIR)$(PREFIX)'/share/$${entry#*:}; done

include record/record.mk

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d) $(BUILD)/obj/completions.d
