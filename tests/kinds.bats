#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Kinds of words, and counting words of some kinds only.

load lib/common

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# A process with words of all kinds: two more threads, one of which has an arena of malloc's, and a
# large block.
threads_core() {
	cat >threads.c <<-'END'
		#include <pthread.h>
		#include <stdlib.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <unistd.h>
		static void *volatile *table;
		static pthread_barrier_t barrier;
		static int data[100] = {1};
		static void *thread(void *arg)
		{
			void *on_stack[10];
			long which = (long)arg;
			void *in_arena = malloc(100);
			for (int i = 0; i < 500 + which; i++) {
				table[10000 * which + i] = on_stack;
				table[10000 * which + 2000 + i] = in_arena;
			}
			pthread_barrier_wait(&barrier);
			for (;;)
				pause();
		}
		int main(void)
		{
			pthread_t threads[2];
			void *on_stack[10], *anon = mmap(0, 40960, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			table = calloc(50000, sizeof *table);
			pthread_barrier_init(&barrier, 0, 3);
			for (long i = 0; i < 2; i++)
				pthread_create(&threads[i], 0, thread, (void *)i);
			pthread_barrier_wait(&barrier);
			void *in_heap = malloc(100), *large = malloc(1 << 20);
			memcpy(anon, "text", 4);
			for (int i = 0; i < 400; i++) {
				table[20000 + i] = on_stack;
				table[21000 + i] = in_heap;
				table[22000 + i] = large;
				table[23000 + i] = (char *)anon + 16;
				table[24000 + i] = &data[10];
				table[25000 + i] = thread;
				memcpy((void *)&table[26000 + i], "HTTP/1.1", 8);
				memcpy((void *)&table[27000 + i], "half\0\0\0", 8);
				table[28000 + i] = (void *)12345678910;
				table[29000 + i] = (void *)0x123456789abcdef0;
			}
			abort();
		}
	END
	"${CC:-cc}" -O0 -pthread -o threads threads.c
	dump -k core ./threads || skip "the kernel writes no core where it can be read"
}

@test "each kind is told, and where an address lies" {
	threads_core
	topleak -0 -n 40 core
	local line
	while read -r line; do
		grep -qE "  $line\$" <<<"$output" || { printf 'no "%s" in:\n%s\n' "$line" "$output" && false; }
	done <<-'END'
		zero
		heap\+0x[0-9a-f]+
		malloc arena at 0x[0-9a-f]+00000\+0x[0-9a-f]+
		malloc blocks at 0x[0-9a-f]+000\+0x10
		stack of thread [0-9]+\+0x[0-9a-f]+
		anonymous memory at 0x[0-9a-f]+000\+0x10
		data\+40 \(threads\)
		thread \(threads\)
		"HTTP\/1.1"
		"half"
		12345678910
	END
	# Three threads, three stacks.
	[ "$(grep -o 'stack of thread [0-9]*' <<<"$output" | sort -u | wc -l)" -eq 3 ]
	topleak -0 -n 400 -ojson core
	is '.top | any(.value == "0x123456789abcdef0" and .kind == "other" and .description == "")'
	is '.memory | .heap > 400000 and .stacks > 0 and .anon > 0 and .files > 0'
}

# Counting words of one kind gives what is left of the whole table without the others.
same_as_whole() {
	local kind
	topleak -0 -n 1000000 -m 1G -ojson "$@"
	local whole=$output
	for kind in zero number text code data heap stack anon other; do
		topleak -0 -n 1000000 -m 1G -ojson -k "$kind" "$@"
		equal "$(jq -c '.top[]' <<<"$output" | md5sum)" \
			"$(jq -c ".top[] | select(.kind == \"$kind\")" <<<"$whole" | md5sum)"
	done
	topleak -0 -n 1000000 -m 1G -ojson -k text,heap,data "$@"
	equal "$(jq -c '.top[]' <<<"$output" | md5sum)" \
		"$(jq -c '.top[] | select(.kind == "text" or .kind == "heap" or .kind == "data")' <<<"$whole" | md5sum)"
}

@test "--kind agrees with the whole table" {
	threads_core
	same_as_whole core
}

@test "--kind agrees with the whole table: 32 bits, big-endian" {
	needs powerpc-linux-gnu-g++ qemu-ppc
	sed 's/1000000/1000/' "$repo/fixtures/leak.cpp" >little.cpp
	powerpc-linux-gnu-g++ -static -o little little.cpp
	printf '#!/bin/sh\nexec qemu-ppc %s/little\n' "$PWD" >run
	chmod +x run
	dump -k core ./run || skip "no core from qemu"
	same_as_whole core
}

@test "the same without names" {
	threads_core
	topleak -0 -n 1000 -k data core
	local named=$output
	topleak -0 -n 1000 -k data --no-names core
	equal "$output" "$(sed 's/  .*//' <<<"$named")"
}

@test "kinds that are addresses: not of plain bytes, nor of a pipe; an unknown kind is none" {
	threads_core
	topleak -2 -k heap -r threads
	fails "--kind heap" "plain bytes"
	topleak -2 -k data -w 4 core
	fails "--kind data"
	topleak -0 -k text,number -r threads
	run --separate-stderr -2 bash -c '{ cat core && head -c 100M /dev/zero; } | "$1" -k text -' _ "$TOPLEAK"
	fails "--kind" "pipe"
	topleak -2 -k nonsense core
	fails "nonsense" "zero"
	topleak -2 -k heap, core
	fails "--kind"
}

@test "arm64: the upper byte of an address is ignored" {
	mkcore core 'machine => 183, segments => [{ vaddr => 0x7f0000000000, words =>
		[0x7f0000000010, 0x7f0000000010, 0xab007f0000000010, 0xab007f0000000010, 0xab007f0000000010] }]'
	topleak -0 core
	equal "$output" "\
0xab007f0000000010 : 3  anonymous memory at 0x7f0000000000+0x10
0x00007f0000000010 : 2  anonymous memory at 0x7f0000000000+0x10"
	mkcore core 'segments => [{ vaddr => 0x7f0000000000, words => [0xab007f0000000010] }]'
	topleak -0 core
	equal "$output" "0xab007f0000000010 : 1"
}

@test "addresses go before short texts, texts that fill the word before addresses but those in files" {
	mkcore core 'class => 32, machine => 3, segments => [{ vaddr => 0x41414000, memsz => 4096, words => [0x41414141, 0x41414141, 0x00414141] },
		{ vaddr => 0x00414000, memsz => 4096, words => [0x00414141] }]'
	topleak -0 core
	equal "$output" '0x00414141 : 2  anonymous memory at 0x414000+0x141
0x41414141 : 2  "AAAA"'
}

@test "the filter agrees with the rules on random words and addresses" {
	local filter
	filter=$(dirname "$TOPLEAK")/test-filter
	[ -x "$filter" ] || skip "no $filter"
	"$filter" 3000
}

@test "a word that may be a part of a text: UTF-16 of both orders, and a dot for one byte that is not printable" {
	local core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x1000, bytes => "o\0m\0e\0r\0" x 5 . "\0o\0m\0e\0r" x 4 . "\x80session" x 3 . "ab\1cdefg" x 2 . "a\1bc\2def" }]'
	topleak -0 -n 5 "$core"
	equal "$(sed 's/^0x[0-9a-f]* : //' <<<"$output")" '5  u"omer"
4  u"omer"
3  ".session"
2  "ab.cdefg"
1'
	topleak -0 -n 5 --redact "$core"
	[[ $output != *omer* && $output != *session* ]]
}

# by_chance FLAG...: builds fixtures/chance.c; what its memory is full of by chance has no name, what it has stored has
by_chance() {
	needs jq
	cd "$BATS_TEST_TMPDIR"
	"${CC:-cc}" -O2 "$@" -o chance "$repo/fixtures/chance.c" || skip "$* does not work"
	local symbols
	for symbols in yes no; do
		[ $symbols = yes ] || strip -s chance
		"$repo/scripts/dump" -k core ./chance "$PWD/truth" || skip "the kernel writes no core where it can be read"
		topleak -0 -k code,data -n 300 --min-count 50 -ojson core
		[ "$(wc -l <truth)" -eq 14 ]
		equal "$(jq -r '.top[].value' <<<"$output" | sed 's/0x0*//' | sort)" \
			"$(sed -n 's/^[a-z_]* 0x\([0-9a-f]*\) [0-9]*$/\1/p' truth | sort -u)"
		topleak -0 --types -n 300 -ojson core
		is '[.types[] | select(.where == "heap" and .count >= 50)] | length >= 4 and length <= 8'
		[ $symbols = no ] || is '[.types[] | select(.where == "heap" and .count >= 50) | .name] | all(test("^-> (on_|table|changing)"))'
	done
}

@test "numbers and ends of texts are no addresses: a program at a fixed address" { by_chance -fno-pie -no-pie; }
@test "numbers and ends of texts are no addresses: a static program" { by_chance -fno-pie -static; }
@test "numbers and ends of texts are no addresses: constants behind the code" {
	by_chance -fno-pie -no-pie -Wl,-z,noseparate-code
}
@test "numbers and ends of texts are no addresses: gold" {
	needs ld.gold
	by_chance -fno-pie -no-pie -fuse-ld=gold
}
