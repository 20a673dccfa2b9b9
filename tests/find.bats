#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Looking closer: --find, --strings, --member, --around, --redact.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
}

der() {
	fixture der "${CXX:-c++}" -o @ "$repo/fixtures/der.cpp"
}
der_core() {
	fixture der.core dump @ "$(der)" --password=hunter2-is-the-password
}
# Der's vtable pointer: the most frequent word that points into the program
der_vtable() {
	"$TOPLEAK" -n 20 -ojson "$(der_core)" | jq -r '[.top[] | select(.description | startswith("vtable for Der"))][0].value'
}

# texts: the rows of the output without addresses
texts() {
	sed -n 's/^ *\([0-9]*\)  0x[0-9a-f]*  /\1 /p' <<<"$output"
}

@test "random files, cores and questions: equal to the slow search" {
	export SEED=${SEED:-$((RANDOM << 15 | RANDOM))}
	echo "# SEED=$SEED" >&3
	cd "$BATS_TEST_TMPDIR"
	TOPLEAK=$TOPLEAK compare 220 find
}

# ---- texts

@test "a text that looks like a number is looked for as a text, and the way to the number is told" {
	local text
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7] }]'
	for text in 12:0xc 2dfdc1c3e:0x2dfdc1c3e; do
		topleak -0 --find "${text%:*}" "$core"
		contains "$stderr" "looked for as a text; for the number use --find ${text#*:}"
	done
	for text in decade 7f1 abcdef text:12; do
		topleak -0 --find "$text" "$core"
		equal "$stderr" ""
	done
	topleak -2 --path 7fe801 "$core"
	fails "'7fe801' is not a number; hexadecimal ones begin with 0x"
}

@test "occurrences may overlap" {
	printf 'aaaa' >"$core"
	topleak -0 -r --exact --find aa "$core"
	equal "${lines[0]}" '"aa" : 3'
	equal "$(texts)" '3 "aaaa"'
}

@test "a text is found at the first and the last byte, and across segments that touch" {
	mkcore "$core" 'align => 64, segments => [
		{ vaddr => 0x1001, bytes => "needle" . "\0" x 50 . "nee" },
		{ vaddr => 0x3000, bytes => "dle" },
		{ vaddr => 0x103c, bytes => "dle\0\0needl" },
		{ vaddr => 0x5000, bytes => "e\0\0needle" }]'
	topleak -0 --exact --find needle "$core"
	equal "$output" '"needle" : 3
        3  0x0000000000001001  "needle"'
}

@test "a pattern of 10 kB, and of one byte" {
	perl -e 'print "x" x 300_000, "q" . "ab" x 5000, "\0", "z"' >"$core"
	topleak -0 -r --exact --find "q$(perl -e 'print "ab" x 5000')" "$core"
	contains "${lines[0]}" ' : 1'
	contains "${lines[1]}" '0x00000000000493e0  ..."'
	topleak -0 -r --exact --find z "$core"
	equal "$output" '"z" : 1
        1  0x000000000004baf2  "z"'
}

@test "at most 120 bytes around are shown, whole characters, and a cut is marked" {
	perl -e 'print "\0", "a" x 119, "\xc3\xa4", "b" x 119, "NEEDLE", "c" x 120, "\0NEEDLE", "\xc3\xa4" x 61, "\0"' >"$core"
	topleak -0 -r --exact --find NEEDLE "$core"
	equal "$(texts)" "1 \"NEEDLE$(perl -e 'print "\xc3\xa4" x 60')\"...
1 ...\"$(perl -e 'print "b" x 119, "NEEDLE", "c" x 120')\""
}

@test "--ignore-case: texts that differ in case only are one, shown as at the lowest address" {
	printf 'Get /A\0GET /a\0get /b\0' >"$core"
	topleak -0 -r --ignore-case --exact --find get "$core"
	equal "$output" '"get" : 3
        2  0x0000000000000000  "Get /A"
        1  0x000000000000000e  "get /b"'
}

@test "--find agrees with grep -abo" {
	local text
	for text in vtable Handshake main; do
		topleak -0 -r --find "$text" "$(der)"
		equal "${lines[0]}" "\"$text\" : $(grep -abo "$text" "$(der)" | wc -l)"
	done
}

@test "a text that is not there is an answer" {
	printf 'abc' >"$core"
	topleak -0 -r --find nothing "$core"
	equal "$output" '"nothing" : 0'
}

@test "0x is a word, text: is a text, and decimal digits get a hint" {
	printf '0x10 4711 \x10\0\0\0\0\0\0\0' >"$core"
	topleak -0 -r --find 0x10 -s 10 "$core"
	equal "${lines[0]}" "0x0000000000000010 : 1  16"
	topleak -0 -r --find text:0x10 "$core"
	equal "${lines[0]}" '"0x10" : 1'
	topleak -0 -r --find 0xZZ "$core"
	equal "${lines[0]}" '"0xZZ" : 0'
	equal "$stderr" ""
	topleak -0 -r --find 4711 "$core"
	equal "${lines[0]}" '"4711" : 1'
	contains "$stderr" "--find 0x1267"
	topleak -2 -r -w 4 --find 0x123456789 "$core"
	fails "0x123456789" "4 bytes"
	topleak -2 -r --find 0x12345678901234567 "$core"
	fails "64 bits"
}

# ---- strings

@test "--strings agrees with strings | sort | uniq -c" {
	needs strings
	local file
	for file in "$(der)" "$TOPLEAK"; do
		# Bytes of code make UTF-8 and Latin-1 here and there: without them.
		LC_ALL=C tr '\200-\377' '\0' <"$file" >"$core"
		topleak -0 -r --exact --strings -n 100000 -m 16M "$core"
		equal "$(grep -v '  u"' <<<"$output" | sed -n 's/^ *\([0-9]*\)  0x[0-9a-f]*  /\1 /p' | sed 's/\\\(["\\]\)/\1/g; s/\\t/\t/g; s/^\([0-9]*\) "\(.*\)"$/\1 \2/')" \
			"$(strings -a -n 8 "$core" | cut -c1-4096 | sort | uniq -c | sed 's/^ *//' | sort -k1,1nr -k2)"
	done
}

@test "strings cross chunks and segments; long ones are cut when shown" {
	perl -e 'print "\0", "long" x 200_000, "\0", "longlong"' >"$core"
	topleak -0 -r --exact --strings -ojson "$core"
	is '.found.count == 2 and [.texts[] | .length] == [8, 800000] and .texts[1].cut_after and (.texts[1].text | length) == 4096'
	mkcore "$core" 'segments => [{ vaddr => 0x1000, bytes => "half" }, { vaddr => 0x1004, bytes => "half" }, { vaddr => 0x2000, bytes => "half" }]'
	topleak -0 --exact --strings "$core"
	equal "$output" '        1  0x0000000000001000  "halfhalf"'
}

@test "many different strings in little memory: the same as in much" {
	perl -e 'srand 1; for (1 .. 900_000) { printf "text number %d\0", 1_000_000 * rand() ** 4 }' >"$core"
	topleak -0 -r --exact --strings -m 1G "$core"
	local expected=$output
	topleak -0 -r --exact --strings -m 16M "$core"
	equal "$output" "$expected"
	topleak -0 -r --exact --find number -m 16M "$core"
	equal "$(tail -n +2 <<<"$output" | sed 's/0x[0-9a-f]*//')" "$(sed 's/0x[0-9a-f]*//' <<<"$expected")"
}

# ---- templates, encodings, code

@test "texts that differ in numbers are one row: how many, their bytes, how many different ones, an example" {
	perl -MDigest::MD5=md5_hex -e 'printf "session:%08d\0", $_ for 1 .. 1000; print "session:00000001\0" x 10, "no number\0" x 3;
		printf "token=%s;id=%d\0", md5_hex($_), $_ for 1 .. 20' >"$core"
	topleak -0 -r --strings "$core"
	[[ ${lines[0]} =~ ^'     1010   15.8 KiB      ~'[0-9]+'  "session:########"  e.g. "session:00000001"'$ ]]
	[[ ${lines[1]} =~ ^'       20  871 bytes        ~'(19|20)'  "token=<32 hex>;id=#"  e.g. "token=c4ca4238a0b923820dcc509a6f75849b;id=1"'$ ]]
	equal "${lines[2]}" '        3   27 bytes          1  "no number"'
	topleak -0 -r --strings -ojson "$core"
	is '.texts[0] | .count == 1010 and .bytes == 16160 and .template == "session:########" and .text == "session:00000001" and .encoding == "utf-8"'
	is '.texts[0].distinct | . > 850 and . <= 1010'
	topleak -0 -r --find session -ojson "$core"
	is '.found.count == 1010 and (.texts | length) == 1 and .texts[0].template == "session:########"'
	topleak -0 -r --strings --exact "$core"
	equal "${lines[0]##*  }" '"session:00000001"'
	topleak -0 -r --strings --redact "$core"
	[[ $output != *session* && $output != *number* ]]
	for format in json csv gdb; do
		topleak -0 -r --strings --redact -o$format "$core"
		[[ $output != *session* && $output != *token* ]]
	done
}

@test "each mark of a template" {
	# text, template
	local row
	while IFS='|' read -r text template; do
		printf '%s\0' "$text" >"$core"
		topleak -0 -r --strings "$core"
		row=${output%%  e.g. *}
		equal "${row:33}" "\"$template\""
	done <<-'END'
		id 7, of 12|id #, of ##
		libQt5Core.so|libQt#Core.so
		deadbeef is hex, beef is not|<8 hex> is hex, beef is not
		DEADBEEF0 DeadBeef0|<9 hex> DeadBeef#
		0x1f at 0x55d0aabbccdd|0x<2 hex> at 0x<12 hex>
		x0123456789abcdef0123456789abcdef|x<32 hex>
		f81d4fae-7dec-11d0-a765-00a0c91e6bf6|<uuid>
		2026-12-01 2026-12-01T01:02:03.5Z 2026-13-01|<date> <date> ####-##-##
		key dGhpcyBpcyBubyBzZWNyZXQsIDEyMzQ1Njc4OTA=|key <40 base64>
		/usr/lib/x86_64-linux-gnu/libgcc_s.so.1|/usr/lib/x##_##-linux-gnu/libgcc_s.so.#
		a       b        c|a       b<8 spaces>c
	END
}

@test "UTF-16 in both orders, UTF-8 and Latin-1" {
	perl -e 'my $t = sub { pack shift . "*", map ord, split //, shift }; print "\0\0", map({ $t->("S<", "customer-$_"), "\0\0" } 10 .. 19),
		map({ $t->("S>", "customer-$_"), "\0\0" } 20 .. 22), "M\xfcller & S\xf6hne\0", "M\xc3\xbcller & S\xc3\xb6hne\0", "customer-1\0\0",
		$t->("S<", "\x{41f}\x{440}\x{438}\x{432}\x{435}\x{442}!!"), "\0\0", "\1" x 64' >"$core"
	topleak -0 -r --strings -ojson "$core"
	is '[.texts[] | [.count, .encoding, .template]] == [[10, "utf-16le", "customer-##"], [3, "utf-16be", "customer-##"],
		[1, "latin-1", "Müller & Söhne"], [1, "utf-8", "Müller & Söhne"], [1, "utf-8", "customer-#"], [1, "utf-16le", "Привет!!"]]'
	topleak -0 -r --find customer "$core"
	equal "${lines[0]}" '"customer" : 14'
	contains "${lines[1]}" 'u"customer-##"  e.g. "customer-10"'
	topleak -0 -r --find Müller "$core"
	equal "${lines[0]}" '"Müller" : 2'
}

@test "code is no text, nor what a file has that cannot be written to; --all has it, --min-length 4 finds ext4" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, flags => 5, bytes => "UAWAVAUATSH" }, { vaddr => 0x2000, flags => 4, bytes => "read-only" },
		{ vaddr => 0x3000, flags => 6, bytes => "ext4" }, { vaddr => 0x4000, flags => 4, bytes => "anonymous" }],
		notes => [{ name => "CORE", type => 0x46494c45, desc => pack("Q<2", 2, 1) . pack("Q<6", 0x1000, 0x2000, 0, 0x2000, 0x3000, 1) . "/a\0/a\0" }]'
	topleak -0 --strings --exact --min-length 4 "$core"
	equal "$(texts)" '1 "anonymous"
1 "ext4"'
	topleak -0 --strings --exact --all "$core"
	equal "$(texts)" '1 "UAWAVAUATSH"
1 "anonymous"
1 "read-only"'
}

# ---- words and fields

@test "the example of topleaked: a field of 10,001 objects, one of which differs" {
	local vtable expected
	vtable=$(der_vtable)
	topleak -0 --no-names --find "$vtable" --memberOffset=8 --memberType=uint64 "$(der_core)"
	contains "$output" "0x000000000000000f : 10000"
	contains "$output" "0x0000000000000010 : 1"
	expected=$output
	topleak -0 --no-names --find "${vtable#0x}" --member 8:uint64 "$(der_core)"
	equal "$output" "$expected"
}

@test "--type: by name, with and without namespaces and symbols, and the nearest names" {
	local vtable expected stripped=$BATS_TEST_TMPDIR/stripped
	vtable=$(der_vtable)
	topleak -0 --find "$vtable" --member 8:uint64 -n 2 "$(der_core)"
	expected=$output
	topleak -0 --type Der --member 8:uint64 -n 2 "$(der_core)"
	equal "$output" "$expected"
	strip -s -o "$stripped" "$(der)"
	cp "$(der_core)" "$core"
	topleak -0 --type Der --member 8:uint64 -n 2 "$stripped" "$core"
	equal "$output" "$expected"
	# A class without objects is found, too.
	topleak -0 --type std::bad_cast "$(der_core)"
	[[ ${lines[0]} =~ ^0x[0-9a-f]{16}' : '[0-9]+'  vtable for std::bad_cast+16 (libstdc++.so.6'.*')'$ ]]
	topleak -2 --type Dur "$(der_core)"
	fails "--type Dur" "nearest: Der"
	# Beginnings before middles, classes before symbols, and nothing that has little to do with it.
	topleak -2 --type bad_c "$(der_core)"
	[[ $stderr =~ 'the nearest: std::bad_cast' ]]
	topleak -2 --type qqqqqqqq "$(der_core)"
	fails "the nearest: none"
	[[ $stderr != *"--exe"* ]]
	LC_ALL=C sed 's|/fixtures/der|/fixtures/xxx|g' "$(der_core)" >"$core"
	topleak -2 --type qqqqqqqq "$core"
	contains "$stderr" "/fixtures/xxx is missing: give the right one with --exe or --sysroot"
	topleak -2 --type Der --no-names "$(der_core)"
	fails --type --no-names
	printf 12345678 >"$core"
	topleak -2 -r --type Der "$core"
	contains "$stderr" "--type: nothing is known of the addresses"
}

@test "where words are: stack, heap, data, and each address with --all" {
	local vtable
	vtable=$(der_vtable)
	topleak -0 --find "$vtable" -n 3 "$(der_core)"
	contains "${lines[0]}" "vtable for Der+16 (der)"
	equal "$(grep -c '^0x' <<<"$output")" 4
	topleak -0 --find "$vtable" --all -ojson "$(der_core)"
	is '.found.count == (.addresses | length) and .found.count >= 10001 and .found.count == ([.places[].count] | add)'
	is '[.addresses[].address] == ([.addresses[].address] | sort)'
}

@test "fields of every type, before and behind, in big-endian words of 4 bytes" {
	mkcore "$core" 'class => 32, endian => "big", segments => [
		{ vaddr => 0x1000, bytes => pack("L>L>l>f>d>n", 0x21, 0x1234, -2, 1.5, -0.25, 0xfffe) . "Text\0\0" . pack("L>", 0x1234) }]'
	topleak -0 --find 0x1234 --member -4,4:int32,8:float,12:double,20:uint16,20:int16,20:uint8,22:text,0x1:int8,-4:ptr "$core"
	equal "$output" '0x00001234 : 2  4660
-4:word  2 values
0x00000021 : 1  33, or malloc size 32
0x78740000 : 1  "xt"
+4:int32  1 values, 1 not saved
0xfffffffe : 1  -2
+8:float  1 values, 1 not saved
0x3fc00000 : 1  1.5
+12:double  1 values, 1 not saved
0xbfd0000000000000 : 1  -0.25
+20:uint16  1 values, 1 not saved
0xfffe : 1  65534
+20:int16  1 values, 1 not saved
0xfffe : 1  -2
+20:uint8  1 values, 1 not saved
0xff : 1  255
+22:text  1 values, 1 not saved
        1  0x0000101a  "Text"
+1:int8  2 values
0x00 : 2  0
-4:ptr  2 values
0x00000021 : 1  33, or malloc size 32
0x78740000 : 1  "xt"'
}

@test "fields of zeros: a hole in the file is the same as zeros in it" {
	local whole=$BATS_TEST_TMPDIR/whole question
	printf 'AAAAAAAA\0\0\0\0\0\0\0\0hello world' >"$core"
	truncate -s 1M "$core"
	printf 'AAAAAAAA\0\0\0\0\0\0\0\0hello world' >>"$core"
	# So many different texts that they do not fit the memory.
	perl -e 'printf "%s%07d\0", "\0" x 8, $_ for 1 .. 600_000' >>"$core"
	cp --sparse=never "$core" "$whole"
	for question in "--member 8:text -m 16M -n 3" "--member 8:text,16:text,-8:text,8,-16:uint32" --around=-2:4; do
		# shellcheck disable=SC2086 # an option and its argument
		topleak -0 -r --find 0x0 $question -ocsv "$whole"
		local expected=$output
		# shellcheck disable=SC2086
		topleak -0 -r --find 0x0 $question -ocsv "$core"
		equal "$(sed 's/0x0000000000[0-9a-f]*//' <<<"$output")" "$(sed 's/0x0000000000[0-9a-f]*//' <<<"$expected")"
	done
}

@test "more different values of a field than the memory holds" {
	perl -e 'srand 2; print pack "Q<2", 0x4711, 5_000_000 * rand() ** 8 for 1 .. 700_000' >"$core"
	topleak -0 -r --no-names --find 0x4711 --member 8 -m 1G "$core"
	local expected=$output
	topleak -0 -r --no-names --find 0x4711 --member 8 -m 16M "$core"
	equal "$output" "$expected"
}

@test "the layout: constant, malloc size, small number, text, float, many" {
	perl -e 'srand 3; for (1 .. 3000) {
		print pack "Q<", 0x51;
		print pack "Q<4", 0x4711_0000_4711, 12345678910, $_ % 7, rand(2**60);
		print "texttext", pack("d<", 1 + rand), pack "Q<3", 0, 0, 0 }' >"$core"
	topleak -0 -r --around=-1:5 --find 0x471100004711 "$core"
	equal "$(tr -s ' ' <<<"$output" | sed 's/^ //' | sed '/^+24/s/0x[0-9a-f]*/V/; /^+40/s/0x[0-9a-f]*/V/')" \
		'0x0000471100004711 : 3000
offset most frequent share distinct mostly
-8 81, or malloc size 80 100 % 1 malloc size: 80
+0 0x471100004711 100 % 1 constant
+8 12345678910 100 % 1 constant
+16 1 14 % 7 small number
+24 V 0 % many varied
+32 "texttext" 100 % 1 constant
+40 V 0 % many float'
	topleak -0 -r --around=-1:5 --find 0x471100004711 -j 1 -ojson "$core"
	local one=$output
	topleak -0 -r --around=-1:5 --find 0x471100004711 -j 4 -ojson "$core"
	equal "$output" "$one"
	is '.layout[3] | .offset == 16 and .count == 429 and .values == 3000 and .distinct == 7'
	is '.layout[4] | .count_max == 12 and .distinct == null'
	topleak -0 -r --around=-1:5 --find 0x471100004711 -ocsv "$core"
	contains "$output" "8,0x00000002dfdc1c3e,3000,3000,0,1,number,12345678910,constant"
}

@test "the layout says where malloc's memory ends, and names in it are whole, or marked as cut" {
	perl -e 'for (1 .. 300) { print pack "Q<10", 0x51, 0x4711_0000_4711, (7) x 8 }' >"$core"
	topleak -0 -r --around=-1:9 --find 0x471100004711 "$core"
	equal "$(awk '{ print $1, $2, $3 }' <<<"$output" | tail -n 3)" '+64 7 100
-- end of
+72 81, or'
	# Sizes that differ say nothing.
	perl -e 'for (1 .. 300) { print pack "Q<10", $_ % 7 ? 0x51 : 0x61, 0x4711_0000_4711, (7) x 8 }' >"$core"
	topleak -0 -r --around=-1:9 --find 0x471100004711 "$core"
	[[ $output != *"end of"* ]]

	local program=$BATS_TEST_TMPDIR/long whole cut
	whole=W$(printf '%0300d' 0) cut=C$(printf '%02000d' 0)
	"${CXX:-c++}" -O1 -x c++ -o "$program" - <<-END
		#include <cstdlib>
		struct $whole { virtual ~$whole() {} };
		struct $cut { virtual ~$cut() {} };
		struct Holder { virtual ~Holder() {} $whole *whole; $cut *cut; };
		Holder *volatile kept;
		int main() {
			for (int i = 0; i < 1000; i++) {
				kept = new Holder;
				kept->whole = new $whole;
				kept->cut = new $cut;
			}
			abort();
		}
	END
	"$repo/scripts/dump" "$core" "$program"
	topleak -0 --type Holder --around=0:2 "$core"
	[[ ${lines[3]} == *"  pointer to $whole" ]]
	[[ ${lines[4]} == *"  pointer to ${cut:0:1000}"*... ]]
}

@test "the layout at the ends of memory" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [0x4711, 5] }, { vaddr => 0x3000, words => [7, 0x4711] }]'
	topleak -0 --find 0x4711 --around=-1:2 -ojson "$core"
	is '[.layout[] | [.values, .skipped]] == [[1, 1], [2, 0], [1, 1], [0, 2]]'
}

# ---- inputs

@test "the same from a compressed core and from a pipe" {
	needs zstd
	local question expected plain
	plain=$(der_core)
	zstd -qf "$plain" -o "$core.zst"
	for question in "--strings" "--find text:pass" "--find $(der_vtable) --member 8"; do
		topleak -0 -q --no-names $question "$plain"
		expected=$output
		topleak -0 -q --no-names $question "$core.zst"
		equal "$output" "$expected"
		output=$("$TOPLEAK" -q --no-names $question - <"$core.zst")
		equal "$output" "$expected"
	done
}

# ---- output

@test "csv, json and the script for gdb" {
	printf 'say "hi", you\0\0\0say "hi", you\0\0\0' >"$core"
	topleak -0 -r --find hi -ocsv "$core"
	equal "$output" 'count,address,length,cut_before,cut_after,text,encoding,bytes,distinct,template
2,0x0000000000000005,13,0,0,"say ""hi"", you",utf-8,26,1,"say ""hi"", you"'
	topleak -0 -r --find hi -ojson "$core"
	is '.mode == "find" and .found.text == "hi" and .texts[0].text == "say \"hi\", you"'
	topleak -0 -r --find hi -ogdb "$core"
	contains "$output" "x/s 0x5"
	topleak -0 --find "$(der_vtable)" --member 8:uint64,8:double -ogdb -n 2 "$(der_core)"
	equal "$(grep -c '^x/1xg 0x' <<<"$output")" 2
	equal "$(grep -c '^x/1fg 0x' <<<"$output")" 2
}

@test "several files: a heading, a line of JSON, a column of CSV for each" {
	printf 'needle' >"$core"
	cp "$core" "$core.2"
	topleak -0 -r --find needle -ojson "$core" "$core.2"
	equal "$(jq -r .found.count <<<"$output" | tr '\n' ' ')" "1 1 "
	topleak -0 -r --find needle -ocsv "$core" "$core.2"
	equal "${#lines[@]}" 3
}

@test "what is in memory cannot upset the terminal" {
	printf 'needle\x1b[2Jneedle\x9b\xe2\x80\xae\0' >"$core"
	topleak -0 -r --find needle "$core"
	lacks "$output" $'\x1b'
	topleak -0 -r --find $'needle\x1b[2J' "$core"
	equal "${lines[0]}" '"needle\e[2J" : 1'
	lacks "$output" $'\x1b'
}

@test "long texts are cut to the width of a terminal" {
	needs script
	printf 'needle %s %s\0' "$(printf 'word %.0s' {1..20})" 7 >"$core"
	output=$(TERM=xterm script -qec "stty cols 60; '$TOPLEAK' -q -r --color=never --find needle '$core'" /dev/null </dev/null | tr -d '\r')
	local rows
	mapfile -t rows <<<"$output"
	[ "${#rows[1]}" -le 60 ]
	contains "${rows[1]}" "..."
}

@test "--redact leaves out texts, values and arguments, in every mode and format" {
	local secret=hunter2 vtable format question word
	vtable=$(der_vtable)
	# As words, too.
	word=0x$(printf -- '-2retnuh' | od -An -tx1 | tr -d ' \n')
	for format in text json csv gdb; do
		for question in "-n 100000" "-n 1000 --no-names" "--strings -n 10000" "--find $secret" "--find $word" \
			"--find $word --around" "--find $word --member -8:text,0:text,0,8,0:uint32" "--find $vtable --member 8,8:text"; do
			[ "$format-${question##*--}" != gdb-around ] || continue
			topleak -0 -v --redact -o $format $question "$(der_core)"
			lacks "$output" "$secret"
			lacks "$output" "${word#0x}"
			lacks "$stderr" "$secret"
		done
	done
	topleak -0 --redact -n 10 "$(der_core)"
	contains "$output" "vtable for Der+16 (der)"
	topleak -0 --redact --find "$vtable" --member 8 "$(der_core)"
	contains "$output" "0x000000000000000f : 10000  15"
}

# ---- usage

@test "one question in a run, and what refines it needs it" {
	printf 12345678 >"$core"
	topleak -2 --strings --find x "$core"
	fails --strings --find
	topleak -2 --find x --type y "$core"
	fails --find --type
	topleak -2 --member 8 "$core"
	fails --member --find
	topleak -2 --around --strings "$core"
	fails --around --strings
	topleak -2 --all "$core"
	fails --all --find
	topleak -2 -r --find x --member 8 "$core"
	fails --member "--find TEXT"
	topleak -2 -r --find text:x --all "$core"
	fails --all "--find TEXT"
	topleak -2 --min-length 3 --find x "$core"
	fails --min-length --find
	topleak -2 --ignore-case "$core"
	fails --ignore-case
	topleak -2 --kind text --strings "$core"
	fails --kind --strings
	topleak -2 --find 0x1 --member 8 --around "$core"
	fails --member --around
	topleak -2 -r --find 0x1 --min-count 3 "$core"
	fails --min-count --member
	topleak -2 -r --find 0x1 --around -ogdb "$core"
	fails --around "--output gdb"
	topleak -2 -r --find 0x1 --member 8:uint65 "$core"
	fails uint65 uint64
	topleak -2 -r --find 0x1 --member 8,,16 "$core"
	fails --member offset
	topleak -2 -r --find 0x1 --member 99999 "$core"
	fails 99999
	topleak -2 -r --find 0x1 --around=3:1 "$core"
	fails --around 3:1
	topleak -2 -r --find 0x1 --around=x "$core"
	fails --around FROM:TO
	topleak -2 -r --find '' "$core"
	fails --find
}
