#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Names from dumps and binaries that lie: nothing hangs, crashes, or gets out of its place.

load lib/common

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# No run may take long.
topleak() {
	run --separate-stderr "$1" limited "$TOPLEAK" "${@:2}"
}

# Nothing but printable text and newlines in what was printed.
harmless() {
	[ -z "$(LC_ALL=C tr -d '\n -~\200-\377' <<<"$output$stderr")" ] ||
		{ cat -v <<<"$output$stderr" && false; }
	iconv -f UTF-8 -t UTF-8 <<<"$output$stderr" >/dev/null
}

# dies NAME SOURCE: compiles a C program, and has its core
dies() {
	cat >"$1.c"
	"${CC:-cc}" -g -O0 -rdynamic -o "$1" "$1.c"
	dump -k "$1.core" "./$1" || skip "the kernel writes no core where it can be read"
}

# The core of a program with pointers to its function callback.
calls() {
	dies main <<-'END'
		#include <stdlib.h>
		int callback(void) { return 1; }
		static int (*volatile *table)(void);
		int main(void)
		{
			table = calloc(1000, sizeof *table);
			for (int i = 0; i < 1000; i++)
				table[i] = callback;
			abort();
		}
	END
}

# renamed NEW: the core of a program whose callback is renamed to NEW, a symbol of any bytes
renamed() {
	calls
	objcopy --redefine-sym "callback=$1" main
}

@test "symbols with newlines, escape sequences, quotes, commands and broken UTF-8" {
	local name
	for name in $'x\nshell touch '"$PWD/pwned"$'\n' $'\e[31mred\a' '"quoted", "count": 1' "a'b\`c\\d" \
		$'\377\376\300\257' $'\u202eabc' '=1+1' '<b>'; do
		renamed "$name"
		topleak -0 -k code -n 2 main.core
		harmless
		contains "$output" " (main)"
		[ "${#lines[@]}" -eq 2 ]
		topleak -0 -k code -n 2 -ojson main.core
		is '.top | length == 2'
		harmless
		topleak -0 -k code -n 2 -ocsv main.core
		harmless
		topleak -0 -k code -n 2 -ogdb main.core
		harmless
		lacks "$output" shell
	done
	[ ! -e pwned ]
}

@test "a symbol of a megabyte" {
	local name
	renamed renamed
	name=$(head -c 1000000 /dev/zero | tr '\0' a)
	printf 'renamed %s\n' "$name" >names
	objcopy --redefine-syms=names main
	topleak -0 -k code -n 1 main.core
	contains "$output" "  $name (main)"
}

@test "a name that would unfold to gigabytes stays as it is" {
	cat >nested.cpp <<-'END'
		#include <cstdlib>
		template <class A, class B> struct pair {};
		template <int N> struct nested { typedef pair<typename nested<N - 1>::type, typename nested<N - 1>::type> type; };
		template <> struct nested<0> { typedef int type; };
		template <class T> struct Class { virtual ~Class() {} };
		static Class<nested<28>::type> *volatile last;
		int main()
		{
			for (int i = 0; i < 1000; i++)
				last = new Class<nested<28>::type>;
			abort();
		}
	END
	"${CXX:-c++}" -o nested nested.cpp
	dump -k core ./nested || skip "the kernel writes no core where it can be read"
	local format
	for format in text json csv; do
		topleak -0 -k data --min-count 1000 -o "$format" core
		contains "$output" "_ZTV5ClassI4pairIS0_IS0_IS0_"
		[ "${#output}" -lt 10000 ]
	done
	strip -s nested
	topleak -0 -k data --min-count 1000 core
	contains "$output" "_ZTV5ClassI4pairIS0_IS0_IS0_"
}

@test "a long name that does not unfold is demangled" {
	{
		echo '#include <cstdlib>'
		echo 'template <class... T> struct Class { virtual ~Class() {} };'
		for ((i = 0; i < 200; i++)); do echo "struct long_name_number_$i {};"; done
		echo 'typedef Class<'
		for ((i = 0; i < 199; i++)); do echo "long_name_number_$i,"; done
		echo 'long_name_number_199> type; type *volatile last;'
		echo 'int main() { for (int i = 0; i < 1000; i++) last = new type; abort(); }'
	} >long.cpp
	"${CXX:-c++}" -o long long.cpp
	dump -k core ./long || skip "the kernel writes no core where it can be read"
	topleak -0 -k data --min-count 1000 core
	contains "$output" "vtable for Class<long_name_number_0, long_name_number_1, "
	local whole=$output
	strip -s long
	topleak -0 -k data --min-count 1000 core
	equal "$output" "$whole"
}

@test "typeinfo that points to nowhere, to itself, in circles, and names without an end" {
	cat >main.c <<-'END'
		#include <stdlib.h>
		#include <string.h>
		#include <sys/mman.h>
		extern void *_ZTVN10__cxxabiv120__si_class_type_infoE[];
		extern void *_ZTVN10__cxxabiv121__vmi_class_type_infoE[];
		static int method(void) { return 1; }
		static char endless[1 << 20];
		static void *self[8], *nowhere[8], *forever[8], *circle[8], *many[8];
		static void *tables[6][8];
		static void *volatile *table;
		static void fill(int i, void *typeinfo) { tables[i][1] = typeinfo; tables[i][2] = method; }
		int main(void)
		{
			memset(endless, '1', sizeof endless);
			self[0] = self[1] = self;
			nowhere[0] = nowhere[1] = (void *)0x123456789;
			forever[0] = _ZTVN10__cxxabiv120__si_class_type_infoE + 2;
			forever[1] = endless;
			circle[0] = _ZTVN10__cxxabiv120__si_class_type_infoE + 2;
			circle[1] = "6circle";
			circle[2] = circle;
			many[0] = _ZTVN10__cxxabiv121__vmi_class_type_infoE + 2;
			many[1] = "4many";
			many[2] = (void *)0xffffffff00000000;
			for (int i = 3; i < 8; i += 2)
				many[i] = many;
			fill(0, self), fill(1, nowhere), fill(2, forever), fill(3, circle), fill(4, many);
			fill(5, (void *)-1);
			table = calloc(6000, sizeof *table);
			for (int i = 0; i < 6000; i++)
				table[i] = &tables[i % 6][2];
			abort();
		}
	END
	"${CC:-cc}" -O0 -o main main.c -lstdc++ || skip "no C++ library"
	dump -k core ./main || skip "the kernel writes no core where it can be read"
	strip -s main
	topleak -0 -k data --min-count 1000 core
	harmless
	[ "${#lines[@]}" -eq 6 ]
	# Their names are sound, what they derive from is not.
	contains "$output" "vtable for circle (base at +0) (main)"
	contains "$output" "vtable for many (base at +0) (main)"
	[ "$(grep -c '  main+0x' <<<"$output")" -eq 4 ]
}

# nt_file "START, END, OFFSET, PATH"...: a note for mkcore, with a page size of 1
nt_file() {
	perl -e '
		my @maps = map { [split /, /, $_, 4] } @ARGV;
		my $desc = pack("Q<Q<", scalar @maps, 1)
			. join("", map { pack "Q<3", map { oct } @$_[0 .. 2] } @maps) . join("", map { "$_->[3]\0" } @maps);
		print "{ name => \"CORE\", type => 0x46494c45, desc => pack(\"H*\", \"", unpack("H*", $desc), "\") }";
	' "$@"
}

@test "mapped files that are a FIFO, a device, a directory, a socket, or in /proc" {
	mkfifo fifo
	mkdir folder
	mkcore core "notes => [$(nt_file "0x7f0000010000, 0x7f0000011000, 0x0, $PWD/fifo" "0x7f0000020000, 0x7f0000021000, 0x0, /dev/zero" \
		"0x7f0000030000, 0x7f0000031000, 0x0, $PWD/folder" "0x7f0000040000, 0x7f0000041000, 0x0, /proc/self/mem" \
		"0x7f0000050000, 0x7f0000051000, 0x0, /proc/kmsg" "0x7f0000060000, 0x7f0000061000, 0x0, relative/../fifo" \
		"0x7f0000070000, 0x7f0000071000, 0x0, $PWD/fifo (deleted)")],
		segments => [map { { vaddr => 0x7f0000000000 + (\$_ << 16), flags => 5, words => [(0x7f0000010010) x 9, (0x7f0000020010) x 8, (0x7f0000030010) x 7] } } 1 .. 7]"
	topleak -0 -n 3 core
	equal "$output" "\
0x00007f0000010010 : 63  fifo+0x10
0x00007f0000020010 : 56  zero+0x10
0x00007f0000030010 : 49  folder+0x10"
	# Below a folder that the user names, too.
	mkdir -p "root$PWD"
	mkfifo "root$PWD/fifo"
	topleak -0 -n 3 --debug-dir "root$PWD" --sysroot root core
	local option
	for option in --debug-dir --sysroot; do
		topleak -1 "$option" fifo core
		fails "$option: fifo: is not a directory"
	done
	topleak -1 --exe fifo core
	topleak -1 --exe /dev/zero core
	topleak -1 --exe folder core
}

@test "mapped files whose ranges overlap, wrap, are empty, or have hostile names" {
	mkcore core "notes => [$(nt_file "0x10000, 0x30000, 0x0, /a" "0x20000, 0x28000, 0x0, /b" \
		"0x28000, 0x40000, 0x0, /c" "0x50000, 0x50000, 0x0, /d" "0x70000, 0x60000, 0x0, /e" \
		"0xfffffffffffff000, 0xffffffffffffffff, 0x0, /f" "0xffffffffffff0000, 0x1000, 0x0, /g" \
		"0x80000, 0x90000, 0xffffffffffffffff, /h"$'\e[31m\nshell true'"")],
		segments => [{ vaddr => 0x10000, words => [0x10008, 0x20008, 0x30008, 0x50008, 0x60008, 0xfffffffffffff008, 0x80008] }]"
	topleak -0 -n 20 core
	harmless
	contains "$output" "0x0000000000010008 : 1  a+0x8"
	contains "$output" "0x0000000000020008 : 1  a+0x10008"
	contains "$output" "0x0000000000030008 : 1  c+0x8008"
	topleak -0 -v core
	harmless
	topleak -0 -ojson core
	is '.top | length == 7'
}

@test "thousands of mapped files" {
	local notes
	notes=$(perl -e 'print map { my $a = 0x100000 + $_ * 0x2000; sprintf "0x%x, 0x%x, 0x0, /file%d\n", $a, $a + 0x1000, $_ } 1 .. 60000' |
		perl -e '
			my @maps = map { chomp; [split /, /, $_, 4] } <STDIN>;
			print pack("Q<Q<", scalar @maps, 1), (map { pack "Q<3", map { oct } @$_[0 .. 2] } @maps), map { "$_->[3]\0" } @maps' |
		base64 -w 0)
	printf '%s' "use MIME::Base64; (notes => [{ name => 'CORE', type => 0x46494c45, desc => decode_base64('$notes') }], segments => [{ vaddr => 0x100000, words => [0x102010, 0x102010] }])" |
		mkcore core -
	topleak -0 -n 1 core
	equal "$output" "0x0000000000102010 : 2  file1+0x10"
}

@test "damaged binaries and cores" {
	"${CXX:-c++}" -g -o good "$repo/fixtures/classes.cpp"
	cp good victim
	dump -k core ./victim || skip "the kernel writes no core where it can be read"
	local i seed=${SEED:-$RANDOM} status
	echo "SEED=$seed"
	for ((i = 0; i < 60; i++)); do
		cp good victim
		perl -e '
			my ($file, $seed, $from, $size) = @ARGV;
			srand $seed;
			open my $out, "+<:raw", $file or die;
			for (1 .. 1 + rand 30) {
				# Headers and tables are at the beginning and the end.
				seek $out, (rand() < 0.5 ? rand 1024 : $size - 1 - rand rand $size), 0;
				print $out chr rand 256;
			}' victim $((seed + i)) 0 "$(stat -c %s victim)"
		# The build-id often still agrees: that is what is wanted.
		status=0
		limited "$TOPLEAK" -n 100 core >out 2>err || status=$?
		[ "$status" -eq 0 ] || { echo "status $status, SEED=$seed, i=$i" && cat err && false; }
		strip -s victim 2>/dev/null || true
		limited "$TOPLEAK" -n 100 core >out 2>err || { echo "SEED=$seed, i=$i" && cat err && false; }
	done
	for ((i = 0; i < 40; i++)); do
		cp good victim
		cp core damaged
		perl -e '
			my ($file, $seed, $size) = @ARGV;
			srand $seed;
			open my $out, "+<:raw", $file or die;
			for (1 .. 1 + rand 40) {
				seek $out, (rand() < 0.7 ? 64 + rand 12000 : rand $size), 0;
				print $out chr rand 256;
			}' damaged $((seed + i)) "$(stat -c %s damaged)"
		status=0
		limited "$TOPLEAK" -n 1000 damaged >out 2>err || status=$?
		[ "$status" -le 1 ] || { echo "status $status, SEED=$seed, i=$i" && cat err && false; }
	done
}

@test "a binary that is cut short" {
	"${CXX:-c++}" -g -o good "$repo/fixtures/classes.cpp"
	cp good victim
	dump -k core ./victim || skip "the kernel writes no core where it can be read"
	local size
	for size in 0 1 64 600 4096 9000 20000 40000; do
		cp good victim
		truncate -s "$size" victim
		topleak -0 -n 100 core
	done
}

# peaks_below LIMIT ARG...: its private memory stays below LIMIT kilobytes
peaks_below() {
	run --separate-stderr -0 limited peak "$TOPLEAK" "${@:2}"
	[ "${stderr_lines[-1]}" -lt "$1" ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
}

@test "one library mapped two thousand times has its symbols once" {
	! sanitized || skip "sanitizers need more"
	local symbol machine
	"${CC:-cc}" -shared -nostdlib -Wl,--build-id -Wl,-z,noseparate-code -o lib.so -x c - < <(
		for symbol in {1..3000}; do echo "void function$symbol(void) {}"; done) || skip "no linker for this"
	machine=$(od -An -tu2 -j18 -N2 lib.so)
	symbol=$(nm lib.so | sed -n 's/ T function2999$//p')
	head -c 4096 lib.so >page
	mkcore core "my (\$n, \$base, \$page) = (2000, 0x7f0000000000, do { local (@ARGV, \$/) = 'page'; <> });
		machine => $machine, notes => [{ name => 'CORE', type => 0x46494c45, desc => pack('Q<2', \$n, 4096) .
			pack('Q<*', map { (\$base + \$_ * 0x1000000) x 2, 0 } 0 .. \$n - 1) =~
				s/(.{8})(.{8})(.{8})/\$1 . pack('Q<', 4096 + unpack 'Q<', \$2) . \$3/egsr .
			join('', map { '$PWD/' . './' x (\$_ % 9) . qq(lib.so\0) } 1 .. \$n) }],
		segments => [{ vaddr => 0x10000, words => [map { \$base + \$_ * 0x1000000 + 0x$symbol } 0 .. \$n - 1] },
			map { { vaddr => \$base + \$_ * 0x1000000, bytes => \$page, memsz => 0x100000, flags => 5 } } 0 .. \$n - 1]"
	peaks_below $((64 * 1024)) -q -n 5000 core
	[ "$(grep -c ' : 1  function2999 (lib.so)$' <<<"$output")" -eq 2000 ]
}

@test "a section that unpacks to far more than any compiler's is not unpacked" {
	! sanitized || skip "sanitizers need more"
	calls
	# Nothing is wrong with a section that is packed.
	objcopy --compress-debug-sections=zlib main packed || skip "objcopy cannot pack sections"
	topleak -0 -k code -n 1 --exe packed main.core
	contains "$output" "callback (main) at main.c:2"
	# The string table becomes a gigabyte of zeros; objcopy packs it as it would any other.
	perl -e 'print "\0" x (1 << 20) for 1 .. 1024' >zeros
	objcopy --update-section .debug_str=zeros main large
	objcopy --compress-debug-sections=zlib large bomb
	[ "$(stat -c %s bomb)" -lt $((4 << 20)) ]
	rm zeros large
	peaks_below $((64 * 1024)) -q -k code -n 1 --exe bomb main.core
	contains "$output" " : 100"
}
