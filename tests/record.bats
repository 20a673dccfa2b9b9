#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# topleak-record: what it records is true, and programs do under it what they do without.

load lib/common

setup_file() {
	export RECORD=$repo/build/topleak-record RECORDING=$repo/build/test-recording
	[ -x "$RECORD" ] || skip "not built for this processor"
}

setup() {
	cd "$BATS_TEST_TMPDIR"
	recorded=$(fixture recorded "${CC:-cc}" -O1 -g -pthread -o @ "$repo/fixtures/recorded.c")
}

# What waits to be killed, if the test failed before.
teardown() {
	[ ! -s running ] || kill -9 "$(cat running)" 2>/dev/null || true
}

# record ARG...: runs it, and leaves what the recording file has in "stacks"
record() {
	"$RECORD" -q -o file "$@" >truth
	"$RECORDING" file >stacks
}

compare() {
	run -0 compare-recorded truth "$@"
	contains "$output" "compared 9 sites"
}

@test "every block: live, peak and allocated bytes of each place, to the byte" {
	record --full "$recorded" exit
	compare stacks
	contains "$(tail -1 stacks)" "status 0 1"
}

@test "every block: also after SIGKILL, which the status says" {
	"$RECORD" -q --full -o file "$recorded" kill >truth || [ $? -eq 137 ]
	"$RECORDING" file >stacks
	compare stacks
	contains "$(tail -1 stacks)" "status 9 1"
}

@test "every block: from the core that the kernel writes" {
	ulimit -c unlimited
	grep -qx core /proc/sys/kernel/core_pattern || skip "cores go elsewhere"
	"$RECORD" -q --full -o file "$recorded" abort >truth || [ $? -eq 134 ]
	"$RECORDING" core* >stacks
	compare stacks
	rm -f core*
}

@test "every block: from gcore, which leaves out what is only reserved" {
	needs gcore
	"$RECORD" -q --full -o file "$recorded" wait >truth &
	local pid=$! child
	for _ in $(seq 100); do
		grep -q total truth && break
		sleep 0.1
	done
	child=$(pgrep -P $pid)
	echo "$child" >running
	(ulimit -f 1000000 && gcore -o gcore "$child" >log 2>&1) || { cat log && false; }
	"$RECORDING" gcore.* >stacks
	kill -9 "$child"
	wait $pid || true
	compare stacks
	"$RECORDING" file >stacks
	compare stacks
}

@test "every block: several threads, the peak within 0.1 %" {
	record --full "$recorded" exit 4
	compare stacks 0.001
}

@test "samples: the error of what is live is what theory says" {
	# 40 runs with known seeds: the estimate's distance in standard deviations, which the samples give.
	local seed
	for seed in $(seq 40); do
		"$RECORD" -q --sample 64K --seed "$seed" -o file "$recorded" exit 1 >truth
		"$RECORDING" file >stacks
		awk '/^total/ { print $2 } /^end/ { print $7 }' truth stacks | paste -s -d' '
	done >estimates
	# Standard deviation from the truth: sqrt(sum of n^2 (1-p)/p) over blocks is below sqrt(mean * total).
	run -0 awk '{ d = ($2 - $1) / sqrt(65536 * $1); s += d; if (d < -1.96 || d > 1.96) out++ }
		END { print out + 0, s / NR; exit !(NR == 40 && out <= 5 && s / NR > -0.5 && s / NR < 0.5) }' estimates
}

@test "a torture program does what it does without, in every mode" {
	local torture loaded mode
	torture=$(fixture torture "${CC:-cc}" -O1 -g -pthread -o @ "$repo/fixtures/torture.c" -ldl)
	loaded=$(fixture loaded.so "${CC:-cc}" -O1 -shared -fPIC -o @ "$repo/fixtures/loaded.c")
	run -0 timeout 60 "$torture" "$loaded"
	equal "$output" fine
	for mode in "--sample 512K" "--sample 1" "--full"; do
		# shellcheck disable=SC2086 # a mode can be two words
		run -0 timeout 60 "$RECORD" -q $mode -o file "$torture" "$loaded"
		equal "$output" fine
		"$RECORDING" file >stacks
	done
}

@test "all forms of operator new and delete" {
	local operators
	operators=$(fixture operators "${CXX:-c++}" -std=c++17 -O1 -g -pthread -o @ "$repo/fixtures/operators.cpp")
	run -0 "$RECORD" -q --full -o file "$operators"
	equal "$output" "$(printf 'bad_alloc\nfine')"
	"$RECORDING" file >stacks
	local size
	for size in 1001 1002 1003 1004 1005 1006 1007 1008; do
		# Aligned forms may round up.
		grep -Eq "^stack \w+ ($size|10[0-9][0-9]) 1 " stacks || { echo "$size" && cat stacks && false; }
	done
}

@test "other allocators: jemalloc, tcmalloc, mimalloc" {
	local library found=0
	for library in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2.0; do
		library=$(ldconfig -p | awk -v name="$library" '$1 == name { print $NF; exit }')
		[ -n "$library" ] || continue
		found=1
		LD_PRELOAD=$library record --full "$recorded" exit 2
		compare stacks 0.001
		LD_PRELOAD=$library record --sample 4K "$recorded" exit 2
	done
	[ $found -eq 1 ] || skip "none is installed"
}

@test "every process, by its own name" {
	"$RECORD" -q --full -o 'a.%h.%p' sh -c 'ls / >/dev/null; ls / >/dev/null; exit 3' || [ $? -eq 3 ]
	[ "$(find . -name "a.$(uname -n).*" | wc -l)" -eq 3 ]
	"$RECORD" -q --full -o one sh -c 'ls / >/dev/null; ls / >/dev/null; true'
	"$RECORDING" one >stacks
}

@test "fork: the child goes on with its own copy, the parent with its own" {
	cat >fork.c <<-END
		#include <stdlib.h>
		#include <sys/wait.h>
		#include <unistd.h>
		__attribute__((noinline)) static void *keep(size_t size)
		{
			void *volatile block = malloc(size);
			return block;
		}
		int main(void)
		{
			keep(10001);
			if (fork() == 0) {
				keep(20002);
				_exit(0);
			}
			wait(NULL);
			keep(30003);
			return 0;
		}
	END
	"${CC:-cc}" -O1 -o fork fork.c
	"$RECORD" -q --full -o 'f.%p' ./fork
	local file parents=0 children=0
	for file in f.*; do
		"$RECORDING" "$file" >stacks
		grep -q ' 10001 1 ' stacks
		! grep -q ' 20002 1 ' stacks || children=$((children + 1))
		! grep -q ' 30003 1 ' stacks || parents=$((parents + 1))
		! { grep -q ' 20002 1 ' stacks && grep -q ' 30003 1 ' stacks; }
	done
	equal "$parents $children" "1 1"
}

@test "snapshots, and a trigger that goes to full mode" {
	cat >grow.c <<-END
		#include <stdlib.h>
		#include <unistd.h>
		static void *volatile kept;
		int main(void)
		{
			for (int i = 0; i < 12; i++) {
				for (int k = 0; k < 1000; k++)
					kept = malloc(1000);
				usleep(100000);
			}
			return 0;
		}
	END
	"${CC:-cc}" -O1 -o grow grow.c
	record --full --snapshot 0.2 ./grow
	[ "$(grep -c ^snapshot stacks)" -ge 3 ]
	record --sample 64K --when 'live>4M:full' ./grow
	[ "$(grep -c ^snapshot stacks)" -eq 1 ]
	contains "$(tail -1 stacks)" "mode 2"
	# What came before is estimated, what came after is counted.
	awk '/^stack/ && $10 == 1 { full += $6 } /^stack/ && $10 == 0 { sampled += $6 } END { exit !(full > 3000000 && sampled > 2000000) }' stacks
}

@test "what is large is recorded whole, the rest is sampled" {
	record --sample 1M --all-above 65536 "$recorded" exit
	awk '$1 == "total" { total = $2 } /^stack/ && $10 == 1 { large += $3 } END { exit !(large > total / 2) }' truth stacks
	# Exact stacks have no block below.
	awk '/^stack/ && $10 == 1 && $7 > 0 && $6 / $7 < 65536 { exit 1 }' stacks
}

@test "--all-of a function: everything below it, and samples of the rest" {
	record --sample 4G --all-of small "$recorded" exit
	local place
	place=$(awk '/^site/ { print $3, $5; exit }' truth) # the first place is small()
	equal "$(awk '/^stack/ && $10 == 1 { live += $3; bytes += $6 } END { print live, bytes }' stacks)" "$place"
	run -1 "$RECORD" --all-of no_such_thing "$recorded" exit
	contains "$output" "no_such_thing"
}

@test "--pid: what a process has recorded so far" {
	"$RECORD" -q --full -o file "$recorded" wait >truth &
	local pid=$! child
	for _ in $(seq 100); do
		grep -q total truth && break
		sleep 0.1
	done
	child=$(pgrep -P $pid)
	echo "$child" >running
	"$RECORD" -q --pid "$child" -o sofar
	"$RECORDING" sofar >stacks
	compare stacks
	kill -9 "$child"
	wait $pid || true
	run -1 "$RECORD" --pid $$ -o sofar
	contains "$output" "no process that runs under topleak-record"
}

@test "what cannot be recorded is said before it runs" {
	needs "${CC:-cc}"
	echo 'int main(void) { return 0; }' >fixed.c
	"${CC:-cc}" -static -o fixed fixed.c || skip "no static libc"
	run -126 "$RECORD" ./fixed
	contains "$output" "linked statically"
	run -127 "$RECORD" ./no-such-program
	run -2 "$RECORD"
	contains "$output" "which program?"
	run -2 "$RECORD" --sample nonsense true
	run -2 "$RECORD" --full --all-of x true
}

@test "limits: files, address space, many processes at once" {
	(ulimit -S -f 1000 && "$RECORD" -q -o file true)
	"$RECORDING" file >stacks
	(ulimit -v 4000000 && "$RECORD" -q -o file true)
	"$RECORDING" file >stacks
	"$RECORD" -q -o 'm.%p' sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1 & done; wait'
	[ "$(find . -name 'm.*' | wc -l)" -eq 11 ]
}

@test "the exit status is the program's" {
	"$RECORD" -q -o file sh -c 'exit 42' || [ $? -eq 42 ]
	"$RECORD" -q -o file sh -c 'kill -TERM $$' || [ $? -eq 143 ]
}

@test "options, --help and the manual agree" {
	local known
	known=$("$RECORD" --help | sed -n 's/^ \+\(-.*\)   *.*/\1/p' | grep -oE -- '--[a-z-]+' | sort -u)
	equal "$(sed -n '/^\.It Fl /s/Fl /-/gp' "$repo/man/topleak-record.1" | grep -oE -- '--[a-z-]+' | sort -u)" "$known"
}

@test "the log: pairs of events give what is live, in few bytes" {
	"$RECORD" -q --log log -o file "$recorded" exit >truth
	"$RECORDING" log >events
	# What is allocated before main, and by libc, is in the log, too: nothing of it stays but a buffer or two.
	awk '/^total/ { total = $2 } /^allocate/ { live[$2] = $3 } /^free/ { delete live[$2] }
		/^log/ { bytes = $3; count = $4 } END { for (i in live) sum += live[i]
		exit !(sum >= total && sum < total + 8192 && count > 20000 && bytes / count <= 8) }' truth events
	"$RECORD" -q --log log --log-size 1M -o file "$recorded" exit 1 200000 >truth
	"$RECORDING" log >events
	equal "$(awk '/^log/ { print $2 }' events)" 16
	contains "$(tail -1 events)" "end mode 2"
}

@test "--guard stops at each kind of misuse, says where, and stops nothing else" {
	local misused fault seed
	misused=$(fixture misused "${CC:-cc}" -O1 -g -w -o @ "$repo/fixtures/misused.c")
	for fault in overrun-write underrun-write use-after-free-write use-after-free-read double-free; do
		for seed in 1 2 3 4 5; do
			run ! "$RECORD" -q --sample 1 --guard 1 --seed $seed -o file "$misused" $fault
			contains "${output// /-}" "topleak-record:-$(sed "s,-write$,,; s,-read$,," <<<"$fault")"
			contains "$output" "allocated at"
			lacks "$output" "went on"
		done
	done 2>/dev/null
	run -0 "$RECORD" -q --sample 1 --guard 1 -o file "$misused" none
	equal "$output" "went on"
	# One in two blocks: about half of the runs stop.
	local stopped=0
	for seed in $(seq 30); do
		"$RECORD" -q --sample 1 --guard 2 --seed "$seed" -o file "$misused" double-free >/dev/null 2>said || true
		! grep -q 'topleak-record: double free' said || stopped=$((stopped + 1))
	done
	[ $stopped -ge 6 ] && [ $stopped -le 24 ]
	local torture loaded
	torture=$(fixture torture "${CC:-cc}" -O1 -g -pthread -o @ "$repo/fixtures/torture.c" -ldl)
	loaded=$(fixture loaded.so "${CC:-cc}" -O1 -shared -fPIC -o @ "$repo/fixtures/loaded.c")
	run -0 timeout 60 "$RECORD" -q --sample 256 --guard 2 -o file "$torture" "$loaded"
	equal "$output" fine
}

@test "--mmap: mappings of 64K and more, until they are unmapped" {
	cat >maps.c <<-END
		#define _GNU_SOURCE
		#include <sys/mman.h>
		static char *volatile kept;
		int main(void)
		{
			kept = mmap(0, 1000000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			kept = mremap(kept, 1000000, 3000000, MREMAP_MAYMOVE);
			kept = mmap(0, 500000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			munmap(kept, 500000);
			mmap(0, 5000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			return 0;
		}
	END
	"${CC:-cc}" -O1 -o maps maps.c
	local mode
	for mode in "--full" "--sample 4G"; do
		# shellcheck disable=SC2086 # a mode can be two words
		record $mode --mmap ./maps
		equal "$(awk '/^stack/ && int($10 / 2) % 2 { print $3, $6 }' stacks | sort -k1n -k2n)" "$(printf '0 500000\n0 1000000\n3000000 3000000')"
	done
}

@test "musl: the library built for it records to the byte, also after SIGKILL" {
	needs musl-gcc
	make -s -C "$repo" record CC=musl-gcc BUILD="$BATS_TEST_TMPDIR/musl"
	musl-gcc -O1 -g -pthread -o recorded "$repo/fixtures/recorded.c"
	RECORD=$BATS_TEST_TMPDIR/musl/topleak-record record --full ./recorded exit 3
	compare stacks 0.001
	musl/topleak-record -q --full -o file ./recorded kill >truth || [ $? -eq 137 ]
	"$RECORDING" file >stacks
	compare stacks
	run -126 "$RECORD" ./recorded exit
	contains "$output" "another C library"
}

@test "AArch64: the library records to the byte, under qemu" {
	needs aarch64-linux-gnu-gcc qemu-aarch64
	make -s -C "$repo" record CC=aarch64-linux-gnu-gcc BUILD="$BATS_TEST_TMPDIR/arm"
	aarch64-linux-gnu-gcc -O1 -g -pthread -o recorded "$repo/fixtures/recorded.c"
	# Both libraries record the same process, this machine's qemu itself: the later one is kept.
	QEMU_LD_PREFIX=/usr/aarch64-linux-gnu record --full qemu-aarch64 \
		-E LD_PRELOAD="$BATS_TEST_TMPDIR/arm/libtopleak-record.so" ./recorded exit
	compare stacks
}
