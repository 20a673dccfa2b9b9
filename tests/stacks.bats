#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Call stacks: recordings of which the truth is known, by their own files and in a core.

load lib/common

compose=$(dirname -- "$TOPLEAK")/test-stacks

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# recording KIND [SEED]: made anew in this folder
recording() {
	"$compose" "$@" >"$1"
}

@test "what is in use, at the peak and allocated, by stack, to the byte" {
	recording full
	topleak -0 -q --stacks -o json full
	is '.totals | .live_bytes == 2 * 1048576 + 800 + 50 and .live_blocks == 11 and .recorded == "all"'
	is '.stacks | length == 4'
	is '.stacks[0] | [.live_bytes, .bytes, .blocks, .temporary] == [2097152, 3145728, 3, 1]'
	# A thread holds back two blocks, which were there at the peak or not.
	is '.stacks[1] | [.live_bytes, .live_blocks, .bytes, .blocks, .peak_bytes] == [800, 8, 1200, 12, 700]'
	is '.stacks[1].frames | map(.function) == ["leaf_small", "middle", "outer"]'
	is '.stacks[1].frames[0] | .file == "stacks.c" and .module == "test-stacks" and .line > 0'
	# A library that was closed.
	is '.stacks[2].frames[0].function == "closed.so+0x123"'
	is '.stacks[3] | [.live_bytes, .peak_bytes, .temporary] == [0, 160, 90]'
}

@test "the text has the stacks below the rows" {
	recording full
	topleak -0 -q --stacks -n 2 full
	contains "$output" "leaf_small at stacks.c:" "middle at stacks.c:" "4 stacks, 2 shown" "every block"
	[ "$(grep -c 'outer at' <<<"$output")" -eq 2 ]
}

@test "by function, module and size" {
	recording full
	topleak -0 -q --stacks --by function -o json full
	is '.stacks | map(select(.function == "leaf_small")) | .[0] | .live_bytes == 800 and .bytes == 2800'
	is '.stacks | map(select(.function == "outer")) | .[0].inclusive_bytes == null or .[0].inclusive_bytes == 2098002'
	topleak -0 -q --stacks --by module -o json full
	is '.stacks | map([.module, .live_bytes]) == [["test-stacks", 2097952], ["closed.so", 50]]'
	topleak -0 -q --stacks --by size -o json full
	is '.stacks | map([.size, .live_blocks]) == [[1048576, 2], [100, 8], [50, 1]]'
}

@test "samples stand for more, with an error" {
	recording sample
	topleak -0 -q --stacks -o json sample
	# 60 of 1024 bytes, each standing for 1 / (1 - exp(-1024 / 65536)) blocks; those of a stack that is
	# recorded in full stand for themselves.
	is '.totals.recorded == "samples" and (.stacks[0].live_blocks - 60 / (1 - (-1 / 64 | exp)) | fabs) < 1'
	is '.stacks[0].live_error > 0.2 * .stacks[0].live_bytes and .stacks[0].live_error < 0.3 * .stacks[0].live_bytes'
	is '.stacks | map(select(.live_blocks == 1)) | .[0] | .live_bytes == 50 and .live_error == 0'
	is '.stacks[0].age == 0.5'
	topleak -0 -q --stacks sample
	contains "$output" "one in 64.0 KiB" "+-95 %"
}

@test "a log: pairs, the peak, lifetimes, temporary blocks, and any moment" {
	recording log
	topleak -0 -q --stacks -o json log
	is '.totals | .events == 9 and .peak_bytes == 2200 and .peak_time == 0.006 and .live_bytes == 50'
	is '.totals | .unmatched == 0 and .temporary == 1 and .blocks == 5 and (.rates | add) == 2350'
	is '.stacks[0] | .lifetime_most == 0.006 and (.lifetimes | add) == 2'
	is '.stacks[1] | .lifetime_most > 1 and .temporary == 1'
	topleak -0 -q --stacks --at 3 -o json log
	is '.totals | .live_bytes == 1300 and .at == 0.003'
	topleak -0 -q --stacks --at 100 -o json log
	is '.totals.live_bytes == 1200'
	recording full
	topleak -2 --stacks --at 3 full
	fails "no log"
}

@test "who grows: steadily, not what has filled or goes up and down" {
	recording growth
	topleak -0 -q --stacks --sort growth -o json growth
	is '.totals.snapshots == 9 and (.stacks | map(.grows)) == [true, false, false, false]'
	is '.stacks[0] | .monotony == 1 and .growth_share == 1 and .slope > 700 and .slope < 1100'
	is '.stacks[1].frames[0].function == "leaf_large"'
	recording full
	topleak -2 --stacks --sort growth full
	fails "three are the least"
	"$compose" later >later
	"$compose" growth >other
	topleak -0 -q --stacks --sort growth -o json full later other
	is '.totals.snapshots == 3'
}

@test "what grew since another recording" {
	recording full
	recording later
	topleak -0 -q --stacks --diff full -o json later
	is '.mode == "stacks-diff" and (.stacks | length) == 1'
	is '.stacks[0] | .more_bytes == 500 and .more_blocks == 5 and .frames[0].function == "leaf_small"'
	topleak -0 -q --stacks --diff later full
	contains "$output" "-500 bytes"
	topleak -0 -q --stacks --diff full --by module -o json later
	is '.stacks | map([.module, .more_bytes]) == [["test-stacks", 500]]'
}

@test "a folder is one table" {
	mkdir many
	"$compose" full >many/a.1
	"$compose" later >many/b.2
	echo "something else" >many/notes
	topleak -0 -q --stacks -o json many
	is '.totals.recordings == 2 and .input.format == "recordings"'
	is '.stacks | map(select(.frames[0].function == "leaf_small" and (.frames | length) == 3)) | .[0].live_bytes == 2100'
	mkdir empty
	topleak -1 --stacks empty
	fails "has no recording"
}

@test "a core that carries the recording" {
	recording full
	"$compose" full | perl -e '
		binmode STDIN; local $/; my $bytes = <STDIN>;
		my $self = unpack "Q<", substr $bytes, 24, 8;
		my $at = 4096;
		print "\x7fELF", pack("CCCx9", 2, 1, 1), pack("S<S<L<Q<Q<Q<L<S<S<S<S<S<S<", 4, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0),
			pack("L<L<Q<Q<Q<Q<Q<Q<", 1, 6, $at, $self, 0, length $bytes, length $bytes, 4096);
		print "\0" x ($at - 64 - 56), $bytes;' >core
	topleak -0 -q --stacks -o json core
	is '.input.format == "elf-core" and .totals.live_bytes == 2098002'
	# The core does not say what was mapped where: names are those of the recording.
	is '.stacks[0].frames[0].module == "test-stacks"'
}

@test "a program that is another one gives no names" {
	mkdir bin
	cp "$compose" bin/test-stacks
	bin/test-stacks full >full
	topleak -0 -q --stacks -o folded full
	contains "$output" "outer;leaf_large 2097152"
	printf 'x' | cat bin/test-stacks - >bin/other
	"${CC:-cc}" -x c -Wl,--build-id -o bin/test-stacks - <<<'int main(void) { return 0; }'
	run "$TOPLEAK" -q --stacks -o folded full
	contains "$output" "build-id" "test-stacks+0x"
	lacks "$output" "leaf_large"
}

@test "formats for other programs" {
	recording full
	topleak -0 -q --stacks -o folded full
	[ "$output" = "outer;leaf_large 2097152
outer;middle;leaf_small 800
outer;closed.so+0x123 50" ]
	topleak -0 -q --stacks -o folded --sort allocated -n 1 full
	[ "$output" = "outer;leaf_large 3145728" ]
	topleak -0 -q --stacks -o speedscope full
	is '.profiles[0] | (.weights | add) == .endValue and .unit == "bytes" and (.samples | length) == (.weights | length)'
	is '. as $all | .profiles[0].samples[1] | map($all.shared.frames[.].name) == ["outer", "middle", "leaf_small"]'
	topleak -2 --stacks -o folded full full
	fails "takes one file"
}

@test "pprof: a protocol buffer in gzip" {
	recording full
	"$TOPLEAK" -q --stacks -o pprof full >profile.gz
	gzip -dc profile.gz >profile
	command -v protoc >/dev/null || skip "no protoc"
	protoc --decode_raw <profile >decoded
	# Values of the largest stack, its functions, and the default sample type's name.
	contains "$(cat decoded)" '6: "leaf_large"' '6: "inuse_space"' '6: "stacks.c"'
	[ "$(grep -c '^2 {' decoded)" -eq 4 ]
}

@test "pprof reads it" {
	command -v go >/dev/null && go tool pprof -h 2>&1 | grep -q raw || skip "no go tool pprof"
	recording full
	"$TOPLEAK" -q --stacks -o pprof full >profile.gz
	run go tool pprof -raw profile.gz
	contains "$output" "2097152: 1 2" "leaf_small stacks.c:" "M=1"
}

@test "CSV has the features, one row a stack" {
	recording log
	topleak -0 -q --stacks -o csv log
	[ "$(head -n 1 <<<"$output" | tr , '\n' | wc -l)" -eq "$(sed -n 2p <<<"$output" | tr , '\n' | wc -l)" ]
	contains "$output" "lifetime_median" "outer;middle;leaf_small" "0x"
}

@test "links that lead nowhere, and cut files, are survived and said" {
	recording cut
	topleak -0 --stacks cut
	contains "$output" "damaged or cut"
	recording full
	local size
	for size in 300 2000 4000 20000; do
		head -c "$size" full >part
		run "$TOPLEAK" -q --stacks part
		[ "$status" -le 1 ]
	done
}

@test "random damage: no crash, no endless loop" {
	local seed
	for seed in {1..40}; do
		"$compose" log "$seed" >damaged
		run timeout 20 "$TOPLEAK" -q --stacks damaged
		[ "$status" -le 2 ]
	done
}

@test "what is no recording is refused, and so are options that need one" {
	mkcore core 'segments => [{ vaddr => 0x100000, words => [1, 2, 3] }]'
	topleak -1 --stacks core
	fails "has no recording"
	recording full
	topleak -1 full
	fails "a recording of topleak-record" "--stacks"
	topleak -2 --by function core
	fails "--by: needs --stacks"
	topleak -2 -o pprof core
	fails "--output pprof: needs --stacks"
	topleak -2 --types --sort peak core
	fails "needs --stacks"
	topleak -2 --stacks --types core
	fails "one question"
	topleak -2 --stacks --sort growth --by module full
	fails "do not go together"
	gzip -k full
	topleak -1 --stacks full.gz
	fails "--stacks, unpacked"
}

@test "the output is as the schema says" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	local kind how
	for kind in full sample log growth; do
		recording "$kind"
		for how in "" "--by function" "--by module" "--by size" "--diff $kind"; do
			# shellcheck disable=SC2086
			topleak -0 -q --stacks $how -o json "$kind"
			validate "$repo/share/topleak.schema.json" <<<"$output"
		done
	done
	topleak -0 -q --stacks --sort growth -o json growth
	validate "$repo/share/topleak.schema.json" <<<"$output"
	topleak -0 -q --stacks -o json .
	validate "$repo/share/topleak.schema.json" <<<"$output"
}

@test "a core of a program that was recorded: what is lost, and what allocated it" {
	local record
	record=$(dirname -- "$TOPLEAK")/topleak-record
	[ -x "$record" ] && [ -e "${record%/*}/libtopleak-record.so" ] || skip "the recorder was not built"
	"${CC:-cc}" -g -O1 -x c -o lost - <<-'EOF'
		#include <stdlib.h>
		#include <string.h>
		static char *kept[50];
		__attribute__((noinline)) static char *make(size_t size)
		{
			char *made = malloc(size);
			memset(made, 1, size);
			return made;
		}
		__attribute__((noinline)) static void lose(size_t size, int count)
		{
			for (int i = 0; i < count; i++)
				make(size);
		}
		__attribute__((noinline)) static void lose_other(void)
		{
			for (int i = 0; i < 30; i++)
				make(3000);
			lose(3000, 10);
		}
		int main(void)
		{
			for (int i = 0; i < 50; i++)
				kept[i] = make(200);
			lose(100, 1000);
			lose_other();
			abort();
		}
	EOF
	ulimit -c unlimited
	"$record" --full -q -o recording ./lost || true
	[ -e core ] || mv core.* core || skip "no core here"
	topleak -0 -q --leaks -o json core
	is '.types | map(select(.size > 100 and .size < 120)) | .[0] | .count >= 999 and .allocated_by == "make < lose < main"'
	is '.types | map(select(.size > 3000 and .size < 3100)) | .[0] | .count >= 38 and .allocated_by == "make < lose_other < main"'
	topleak -0 -q --leaks core
	contains "$output" "ALLOCATED BY" "make < lose < main"
	# The file and the core tell the same.
	local file core
	file=$("$TOPLEAK" -q --stacks -o folded recording)
	core=$("$TOPLEAK" -q --stacks -o folded core)
	equal "$core" "$file"
	contains "$core" "lose;make 100000" "lose_other;make 90000"
}
