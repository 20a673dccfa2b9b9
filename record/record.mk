# SPDX-License-Identifier: MIT
#
# topleak-record and the library that it preloads. Both need libc only. The library is optimized whatever
# CFLAGS say, and no sanitizer goes into it: it lives in other programs.

RECORD_MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
HAVE_RECORD := $(or $(HAVE_RECORD),$(if $(filter x86_64 aarch64,$(RECORD_MACHINE)),1,0))
RECORD_OWN := $(filter-out -O% -fsanitize% -fno-sanitize%,$(CFLAGS))
RECORD_FLAGS = -std=c17 -D_GNU_SOURCE -DTOPLEAK_VERSION='"$(VERSION)"' $(WARNINGS) -Irecord \
	'-ffile-prefix-map=$(CURDIR)=.' $(CPPFLAGS) $(RECORD_OWN) -O2
# The caller of a hook is found by the frame pointer of the hook's slow half, to which it jumps.
RECORD_LIBRARY_FLAGS = $(RECORD_FLAGS) -fPIC -fvisibility=hidden -fno-omit-frame-pointer \
	-foptimize-sibling-calls -fno-builtin-malloc -fno-builtin-calloc -fno-stack-protector

RECORD_LIBRARY := $(patsubst record/%.c,$(BUILD)/obj/record/%.o,$(sort $(wildcard record/library/*.c)))
RECORD_LAUNCHER := $(patsubst record/%.c,$(BUILD)/obj/record/%.o,$(sort $(wildcard record/launcher/*.c)))

ifeq ($(HAVE_RECORD),1)
RECORD := $(BUILD)/topleak-record $(BUILD)/libtopleak-record.so
endif
.PHONY: record
record: $(RECORD)

$(BUILD)/obj/record/library/%.o: record/library/%.c $(BUILD)/record-flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(RECORD_LIBRARY_FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/record/launcher/%.o: record/launcher/%.c $(BUILD)/record-flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(RECORD_FLAGS) -fPIE -fstack-protector-strong -MMD -MP -c -o $@ $<

$(BUILD)/libtopleak-record.so: $(RECORD_LIBRARY)
	$(call say,LINK,$@)$(CC) -shared -pthread $(RECORD_OWN) -Wl,-z,relro,-z,now -Wl,-soname,$(@F) $(LDFLAGS) -o $@ $^ -ldl

$(BUILD)/topleak-record: $(RECORD_LAUNCHER)
	$(call say,LINK,$@)$(CC) $(RECORD_OWN) -pie -Wl,-z,relro,-z,now $(LDFLAGS) -o $@ $^

$(BUILD)/record-flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(RECORD_LIBRARY_FLAGS) $(LDFLAGS)' | cmp -s - $@ || echo '$(CC) $(RECORD_LIBRARY_FLAGS) $(LDFLAGS)' >$@

# Prints what a recording has, for tests.
$(BUILD)/test-recording: tests/recording.c record/format.h
	$(call say,LINK,$@)$(CC) $(RECORD_FLAGS) -o $@ $<

.PHONY: install-record uninstall-record
install-record: $(RECORD)
ifeq ($(HAVE_RECORD),1)
	install -D -m 755 $(BUILD)/topleak-record '$(DESTDIR)$(BINDIR)/topleak-record'
	install -D -m 644 $(BUILD)/libtopleak-record.so '$(DESTDIR)$(PREFIX)/lib/topleak/libtopleak-record.so'
	install -D -m 644 man/topleak-record.1 '$(DESTDIR)$(MANDIR)/man1/topleak-record.1'
	install -D -m 644 man/topleak-record.5 '$(DESTDIR)$(MANDIR)/man5/topleak-record.5'
endif

uninstall-record:
	rm -f '$(DESTDIR)$(BINDIR)/topleak-record' '$(DESTDIR)$(PREFIX)/lib/topleak/libtopleak-record.so' \
		'$(DESTDIR)$(MANDIR)/man1/topleak-record.1' '$(DESTDIR)$(MANDIR)/man5/topleak-record.5'
	rmdir '$(DESTDIR)$(PREFIX)/lib/topleak' 2>/dev/null || true

-include $(RECORD_LIBRARY:.o=.d) $(RECORD_LAUNCHER:.o=.d)
