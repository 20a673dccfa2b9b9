#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What README and man page show is what comes out.

load lib/common

setup_file() {
	# skip would fail here.
	[ "$TOPLEAK" = "$repo/build/topleak" ] || return 0
	local work=$BATS_FILE_TMPDIR service path
	service=$(fixture service "${CXX:-c++}" -O2 -pthread -o @ "$repo/fixtures/service.cpp")
	cp "$(leak)" "$(leak_core)" "$service" "$work"
	cp "$(fixture service.core dump @ "$service" 32M)" "$work"
	cd "$work"
	! command -v zstd >/dev/null || zstd -q service.core -o core.service.zst
	# What a container's image would have.
	path=$work/rootfs$service
	mkdir -p "${path%/*}"
	strip -o "$path" service

	# A service that goes on living, and a shell where no time is lost.
	mkdir bin
	ln -s "$TOPLEAK" bin/topleak
	printf '#!/bin/sh\n' | tee bin/sleep >bin/pidof
	chmod +x bin/*
	"${CC:-cc}" -shared -fPIC -x c -o alive.so - <<<'int pause(void); void abort(void) { for (;;) pause(); }'
	LD_PRELOAD=./alive.so ./service 8M >truth 3>&- &
	echo "echo $!" >>bin/pidof
	echo $! >pid
	await test -s truth
}

teardown_file() {
	[ ! -e "$BATS_FILE_TMPDIR/pid" ] || kill "$(cat "$BATS_FILE_TMPDIR/pid")"
}

setup() {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	cd "$BATS_FILE_TMPDIR"
	PATH=$PWD/bin:$PATH
}

@test "the commands in README print what it says" {
	needs zstd jq gdb
	transcript "$repo/README.md"
}

@test "the commands in the man page print what it says" {
	needs mandoc jq gdb
	mandoc -T ascii -O width=250 "$repo/man/topleak.1" | col -bx | sed '1,/^EXAMPLES/d' | sed '/^[A-Z]/,$d' >examples
	transcript examples
}

@test "the check of commands finds what is wrong" {
	printf '    $ echo 1000 at 0x000055a846b51db0\n    1020 at 0x00007fa846b51db8\n' >text
	transcript text
	printf '    $ echo 1000\n    1100\n' >text
	run -1 transcript text
	printf '    $ echo one; echo two\n    one\n' >text
	run -1 transcript text
	printf '    $ echo one; echo two\n    one\n    ...\n' >text
	transcript text
	printf '    $ echo one; false\n    one\n' >text
	run -1 transcript text
}
