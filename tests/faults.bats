#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Each call that can fail fails once, at every place of a run: the answer is right or there is a
# message and status 1; nothing crashes or hangs.

load lib/common

setup() {
	! sanitized || skip "sanitizers have their own malloc"
	needs cc zstd
	faults=$(fixture faults.so cc -shared -fPIC -O1 -D_GNU_SOURCE -o @ "$repo/tests/faults.c" -ldl)
	cd "$BATS_TEST_TMPDIR" || return
	mkcore core 'pid => 4711, command => "/srv/app --serve", signal => 6, segments => [
		{ vaddr => 0x1000, words => [map { $_ % 7 } 1 .. 70] },
		{ vaddr => 0x30000, words => [map { $_ % 9 + 4096 } 1 .. 7000] },
		{ vaddr => 0x10000000, bytes => pack("Q<*", map { ($_ * 2654435761) % 4294967291 } 1 .. 270000) }]'
	zstd -q core
}

# each COMMAND FILTER CALL:HOW...: COMMAND, a line of shell in which TOPLEAK stands for the program, with
# the n-th CALL failing, for n = 1, 2, ... FILTER takes away what may differ from the right answer
each() {
	local line=$1 filter=$2 fault n status right output
	right=$(eval "${line/TOPLEAK/\"\$TOPLEAK\"}" 2>/dev/null | $filter)
	[ -n "$right" ]
	export FAULT FAULT_MARK=mark
	for fault in "${@:3}"; do
		for ((n = 1; ; n++)); do
			rm -f mark
			status=0
			FAULT=${fault%:*}:$n:${fault#*:}
			output=$(eval "${line/TOPLEAK/LD_PRELOAD=\"\$faults\" \"\$TOPLEAK\"}" 2>stderr) || status=$?
			# There were fewer calls.
			[ -e mark ] || break
			if [ "$status" -eq 0 ]; then
				[ "$output" = "$right" ] || equal "$($filter <<<"$output")" "$right" || break 2
			elif [ "$status" -ne 1 ] || [ ! -s stderr ]; then
				break 2
			fi
		done
	done
	unset FAULT
	[ ! -e mark ] || { echo "$fault, call $n: status $status, $(<stderr)" && false; }
}

# Names may be missing, or be less than the best: in another form, or only the file and the place in it.
counts() {
	grep -v "  +\|   *(" | awk '{ print $1, $2, $3 }'
}

@test "an ELF core: memory, reads, threads" {
	each 'TOPLEAK --no-names -m 16M -j 2 -n 5 core' cat \
		alloc:12 pread:5 pread:4 pread:short open:24 fstat:5 lseek:5 close:5 getrandom:38 getrandom:4 \
		pthread_create:11 mmap:12 read:5
}

@test "types: memory, reads, threads" {
	# Objects that point to functions of a library, with headers as malloc has them, among numbers and zeros.
	local name offsets
	"${CC:-cc}" -O1 -shared -nostdlib -Wl,-z,noseparate-code -o lib.so -x c - < <(
		for name in one two three; do echo "int $name(int n) { return n + __LINE__; }"; done) || skip "no linker for this"
	offsets=$(nm lib.so | sed -n 's/^\([0-9a-f]*\) T .*/0x\1,/p')
	head -c 4096 lib.so >page
	mkcore types "my \$page = do { local (@ARGV, \$/) = 'page'; <> }; my @functions = ($offsets);
		machine => $(od -An -tu2 -j18 -N2 lib.so), notes => [{ name => 'CORE', type => 0x46494c45,
		desc => pack('Q<5', 1, 4096, 0x555500400000, 0x555500401000, 0) . \"/srv/app\0\" }], segments => [
		{ vaddr => 0x555500400000, flags => 5, bytes => \$page },
		{ vaddr => 0x555510000000, flags => 6, words => [
			(map { (0, 0x31, 0x555500400000 + \$functions[\$_ % 3], \$_, 0, 0) } 1 .. 9000), 0, 0x1001, (0) x 510] }]"
	# A library that there was no memory for has no rows.
	each 'TOPLEAK --types -m 16M -j 2 -o csv types' 'grep -v ,app,' alloc:12
	each 'TOPLEAK --types -m 16M -j 2 -o csv types' cat \
		pread:5 pread:4 pread:short getrandom:38 pthread_create:11
	topleak -0 --types -o csv types
	contains "$output" "app,3000,48,header"
}

# The name of a type of the program, and with it its kind, may be missing.
nameless() {
	sed 's/^.*,lost,//'
}

@test "leaks: memory, threads" {
	cp "$(fixture lost.plain.core "$repo/scripts/dump" -k @ "$(fixture lost "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/lost.cpp")" @.truth 0)" lost
	each 'TOPLEAK --leaks -j 2 -n 100 -o csv lost' nameless alloc:12 pthread_create:11
}

@test "a compressed core, as JSON: memory, reads, threads" {
	each 'TOPLEAK -o json -m 16M -j 2 -n 5 core.zst' "sed s/.*top//" \
		alloc:12 pread:5 pread:4 pread:short pthread_create:11
}

@test "a pipe, as CSV: memory, reads, threads" {
	each 'zstd -dc core.zst | TOPLEAK --no-names -o csv -m 16M -n 5 -' cat \
		alloc:12 read:5 read:4 read:11 read:short fstat:5 lseek:5 getrandom:38 pthread_create:11
}

@test "names: memory, files" {
	local program
	program=$(fixture small "${CXX:-c++}" -s -o @ "$repo/fixtures/small.cpp") || skip "no C++ compiler"
	[ -e "$(fixture small.core dump @ "$program")" ] || skip "no core dumps here"
	each "TOPLEAK -n 12 --exe $program $fixtures/small.core" counts \
		alloc:12 open:24 pread:5 fstat:5 mmap:12
}

@test "the walk through the heaps: memory, threads" {
	TOPLEAK=$(dirname "$TOPLEAK")/test-heap
	[ -x "$TOPLEAK" ] || skip "no $TOPLEAK"
	mkheap core 2.36
	each 'TOPLEAK -j 2 -c core' "grep -v seconds" alloc:12 pthread_create:11
}

@test "SIGINT and SIGTERM at any read: what was found so far, marked as partial, status 130 and 143" {
	local n
	export FAULT FAULT_MARK=mark
	for ((n = 4; n < 24; n++)); do
		FAULT=pread:$n:sig2
		run --separate-stderr env LD_PRELOAD="$faults" "$TOPLEAK" --no-names -o json -j 2 core
		[ -e mark ] || break
		rm mark
		[ "$status" -eq 130 ] || { echo "$FAULT: $status, $stderr" && false; }
		is '.scanned | .partial or .words == 277070'
		FAULT=pread:$n:sig15
		run --separate-stderr env LD_PRELOAD="$faults" "$TOPLEAK" --no-names core
		[ "$status" -eq 143 ] || { echo "$FAULT: $status, $stderr" && false; }
	done
	[ "$n" -gt 8 ]
}

@test "SIGINT while it looks for leaks or owners: what is not known is not said, in no format" {
	needs jq
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	local n leaks partial=0
	leaks=$(fixture lost.plain.core dump -k @ "$(fixture lost "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/lost.cpp")" @.truth 0)
	export FAULT FAULT_MARK=mark
	for ((n = 1; n < 20000; n += 1 + n / 2)); do
		FAULT=pread:$n:sig2
		run --separate-stderr env LD_PRELOAD="$faults" "$TOPLEAK" --leaks -ojson -j 2 "$leaks"
		[ -e mark ] || break
		rm mark
		[ "$status" -eq 130 ] || continue
		[ -n "$output" ] || continue
		validate "$repo/share/topleak.schema.json" <<<"$output"
		if jq -e .scanned.partial <<<"$output" >/dev/null; then
			partial=$((partial + 1))
			is '.totals | .lost_count == null and .indirect_bytes == null and .lower_bounds'
			is '(.types | length) == 0 and (.totals.used_count | . == null or . > 5000)'
			run --separate-stderr env LD_PRELOAD="$faults" "$TOPLEAK" --leaks -j 2 "$leaks"
			contains "$output" "lost: not known: interrupted"
			lacks "$output" "0 objects"
			run --separate-stderr env LD_PRELOAD="$faults" "$TOPLEAK" --type "(anonymous namespace)::Both" --owners -ojson "$leaks"
			[ -z "$output" ] || is '.found.count == 2 or .found.count == null and .found.lost == null'
			[ -z "$output" ] || validate "$repo/share/topleak.schema.json" <<<"$output"
		else
			is '.totals.lost_count > 0'
		fi
	done
	[ "$partial" -gt 3 ]
}

@test "an interrupted write goes on; a failing one is an error, wherever it is" {
	needs strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local right n
	right=$("$TOPLEAK" --no-names -n 5000 core)
	for n in 1 2 5; do
		run --separate-stderr strace -f -o /dev/null -e inject=write:error=EIO:when=$n "$TOPLEAK" --no-names -n 5000 core
		[ "$status" -eq 1 ]
		contains "$stderr" "cannot write the output: Input/output error"
	done
}

@test "few descriptors, few processes, small files" {
	run --separate-stderr -0 bash -c 'exec 3>&-; ulimit -n 4; exec "$@"' - "$TOPLEAK" --no-names -n 1 core
	equal "$output" "0x0000000000001001 : 778"
	chmod a+rx . && chmod a+r core
	# The build may be where not everybody may go.
	cp "$TOPLEAK" topleak
	run --separate-stderr -0 as_other prlimit --nproc=1 ./topleak --no-names -j 2 -n 1 core
	equal "$output" "0x0000000000001001 : 778"
	run --separate-stderr bash -c 'trap "" XFSZ; ulimit -f 1; "$@" >out' - "$TOPLEAK" --no-names -n 5000 core
	[ "$status" -eq 1 ]
	contains "$stderr" "cannot write the output: File too large"
}

@test "little memory: the right answer or a message" {
	local kilobytes
	for ((kilobytes = 48000; kilobytes < 120000; kilobytes += 4000)); do
		run --separate-stderr bash -c "ulimit -v $kilobytes"'; exec "$@"' - "$TOPLEAK" --no-names -m 16M -j 2 -n 1 core
		case $status in
		0) equal "$output" "0x0000000000001001 : 778" ;;
		1) [ -n "$stderr" ] ;;
		*) echo "$kilobytes: $status $stderr" && false ;;
		esac
	done
}
