#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Names of words: which file gives them, and which must not.

load lib/common

setup_file() {
	leak >/dev/null
}

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# A program that leaks a little, its own copy for each test: `little NAME FLAG...`
little() {
	local name=$1
	shift
	sed 's/1000000/1000/' "$repo/fixtures/leak.cpp" >little.cpp
	"${CXX:-c++}" -o "$name" "$@" little.cpp
}

# kernel_core CORE ARG...: the kernel's core, with -f FILTER if wanted
kernel_core() {
	dump -k "$@" || skip "the kernel writes no core where it can be read"
}

# description_of TEXT: the rows whose description is this
has_row() {
	grep -qE "^0x[0-9a-f]+ : [0-9]+  $1\$" <<<"$output" || { printf 'no "%s" in:\n%s\n' "$1" "$output" && false; }
}

# build_id FILE
build_id() {
	readelf -nW "$1" | sed -n 's/.*Build ID: //p'
}

@test "a vtable pointer has its class's name" {
	cp "$(leak)" leak
	kernel_core core ./leak
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
	equal "$stderr" ""
}

@test "the same from gdb's core" {
	needs gdb
	little leak
	dump -g core ./leak
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
}

@test "the same if the program is stripped" {
	cp "$(leak)" leak
	kernel_core core ./leak
	strip -s leak
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
	equal "$stderr" ""
	topleak -0 -v core
	contains "$stderr" "leak: stripped, build-id ok"
	# Stripped before it ran, too.
	kernel_core core ./leak
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
}

@test "the same if the program is deleted, and the core has its pages" {
	little leak
	kernel_core -f 0x37 core ./leak
	rm leak
	topleak -0 -k data core
	has_row 'vtable for A\+16 \(leak\)'
	topleak -0 -ojson core
	is '.modules | any(.main and .state == "missing")'
}

@test "without its pages a deleted program is an offset" {
	little leak
	kernel_core core ./leak
	rm leak
	topleak -0 -k data -n 1 core
	[[ $output =~ ^0x[0-9a-f]+\ :\ [0-9]+\ \ leak\+0x[0-9a-f]+$ ]]
	equal "$stderr" ""
}

@test "another build of the program gives no name, and one warning" {
	little leak
	kernel_core core ./leak
	local before after
	before=$(build_id leak)
	sed -i 's/\<A\>/B/g' little.cpp
	"${CXX:-c++}" -o leak little.cpp
	after=$(build_id leak)
	[ "$before" != "$after" ]
	topleak -0 core
	lacks "$output" "vtable for B"
	lacks "$output" "vtable for A"
	[ "${#stderr_lines[@]}" -eq 1 ]
	contains "$stderr" "$PWD/leak"
	contains "$stderr" "$before"
	contains "$stderr" "$after"
	topleak -0 -ojson core
	is ".modules | any(.main and .state == \"mismatch\" and .build_id == \"$before\" and .file_build_id == \"$after\")"
}

@test "--exe, and a program before the core, say where the program is" {
	little leak
	kernel_core core ./leak
	mv leak moved
	topleak -0 core
	lacks "$output" "vtable for A"
	topleak -0 --exe moved core
	has_row 'vtable for A\+16 \(leak\)'
	topleak -0 moved core
	has_row 'vtable for A\+16 \(leak\)'
	topleak -0 -ogdb moved core
	contains "$output" "info symbol"
	# One dump, so no heading.
	topleak -0 --no-names -n 1 moved core
	[ "${#lines[@]}" -eq 1 ]
}

@test "--exe: the program that the dynamic linker was told to start" {
	little leak
	printf '#!/bin/sh\nexec %s %s/leak\n' "$(readelf -l leak | sed -n 's/.*interpreter: \(.*\)]/\1/p')" "$PWD" >run
	chmod +x run
	kernel_core core ./run
	topleak -0 leak core
	has_row 'vtable for A\+16 \(leak\)'
	equal "$stderr" ""
	topleak -0 -ojson leak core
	is ".modules | map(select(.main)) | length == 1 and (.[0].path | endswith(\"/leak\"))"
}

@test "--exe: a wrong one is refused with a warning, what is no program with an error" {
	little leak
	kernel_core core ./leak
	topleak -0 --exe "$(command -v ls)" core
	has_row 'vtable for A\+16 \(leak\)'
	[ "${#stderr_lines[@]}" -eq 1 ]
	contains "$stderr" "build-id"
	topleak -1 --exe little.cpp core
	fails "little.cpp" "not an ELF executable"
	topleak -1 --exe missing core
	fails "missing"
}

@test "--sysroot: files below a folder come first, by the paths in the dump" {
	little leak
	kernel_core core ./leak
	mkdir -p "root$PWD"
	mv leak "root$PWD"
	topleak -0 core
	lacks "$output" "vtable for A"
	topleak -0 --sysroot root core
	has_row 'vtable for A\+16 \(leak\)'
	topleak -0 --sysroot root -ojson core
	is ".modules | any(.main and .file == \"root$PWD/leak\")"
}

@test "libraries of another version give no names; --sysroot with the right ones does" {
	cat >lib.c <<-'END'
		#ifndef NAME
		#define NAME right
		#endif
		int NAME(void) { return VALUE; }
	END
	cat >main.c <<-'END'
		#include <stdlib.h>
		int right(void);
		static int (*volatile *table)(void);
		int main(void)
		{
			table = calloc(1000, sizeof *table);
			for (int i = 0; i < 1000; i++)
				table[i] = right;
			abort();
		}
	END
	"${CC:-cc}" -shared -fPIC -DVALUE=1 -o libright.so lib.c
	"${CC:-cc}" -o main main.c -L. -lright -Wl,-rpath,"$PWD"
	kernel_core core ./main
	topleak -0 -k code -n 1 core
	has_row 'right \(libright.so\)'
	mkdir -p "root$PWD"
	mv libright.so "root$PWD"
	"${CC:-cc}" -shared -fPIC -DVALUE=2 -DNAME=wrong -o libright.so lib.c
	topleak -0 -k code -n 1 core
	has_row 'libright.so\+0x[0-9a-f]+'
	[ "${#stderr_lines[@]}" -eq 1 ]
	contains "$stderr" "$(build_id libright.so)"
	topleak -0 -v core
	contains "$stderr" "libright.so: mismatch"
	topleak -0 --sysroot root -k code -n 1 core
	has_row 'right \(libright.so\)'
	equal "$stderr" ""
}

@test "without build-ids: a file whose headers agree is unverified, another one refused" {
	little leak -Wl,--build-id=none
	kernel_core core ./leak
	topleak -0 -ojson core
	is '.modules | any(.main and .state == "unverified")'
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
	echo 'int main() { throw 1; }' >other.cpp
	"${CXX:-c++}" -Wl,--build-id=none -o leak other.cpp
	topleak -0 core
	lacks "$output" "vtable for A"
	[ "${#stderr_lines[@]}" -eq 1 ]
	contains "$stderr" "program headers"
}

@test "without the ELF headers in the core the mappings must agree" {
	little leak
	kernel_core -f 0x23 core ./leak
	topleak -0 -ojson core
	is '.modules | any(.main and .state == "unverified" and .build_id == null)'
	topleak -0 core
	has_row 'vtable for A\+16 \(leak\)'
	cp "$(command -v ls)" leak
	topleak -0 core
	lacks "$output" "vtable for A"
	contains "$stderr" "program headers"
}

@test "without a list of mapped files: the dynamic linker's" {
	needs arm-linux-gnueabi-g++ qemu-arm
	local root=/usr/arm-linux-gnueabi
	[ -e "$root/lib/ld-linux.so.3" ] || skip "no libraries for arm"
	sed 's/1000000/1000/' "$repo/fixtures/leak.cpp" >little.cpp
	arm-linux-gnueabi-g++ -o leak little.cpp
	printf '#!/bin/sh\nexec qemu-arm -L %s %s/leak\n' "$root" "$PWD" >run
	chmod +x run
	dump -k core ./run || skip "no core from qemu"
	topleak -0 --sysroot "$root" -k data -n 50 core
	has_row 'vtable for A\+8 \(leak\)'
	has_row 'vtable for __cxxabiv1::__si_class_type_info\+8 \(libstdc\+\+.so.6\)'
	topleak -0 --sysroot "$root" -ojson core
	is '[.modules[] | select(.state == "unverified") | .path] | contains(["/lib/libc.so.6", "/lib/ld-linux.so.3"])'
	# Without the libraries the program itself still has its names.
	topleak -0 -k data -n 50 core
	has_row 'vtable for A\+8 \(leak\)'
	lacks "$output" "libstdc++"
}

@test "separate debug files: .gnu_debuglink beside, in .debug, below --debug-dir, and by build-id" {
	cat >main.c <<-'END'
		#include <stdlib.h>
		static int callback(void) { return 1; }
		static int (*volatile *table)(void);
		int main(void)
		{
			table = calloc(1000, sizeof *table);
			for (int i = 0; i < 1000; i++)
				table[i] = callback;
			abort();
		}
	END
	local place id
	"${CC:-cc}" -g -o main main.c
	objcopy --only-keep-debug main main.debug
	objcopy --strip-all --add-gnu-debuglink=main.debug main
	kernel_core core ./main
	id=$(build_id main)
	mv main.debug kept
	topleak -0 -k code -n 1 core
	has_row 'main\+0x[0-9a-f]+'
	for place in main.debug .debug/main.debug; do
		install -D kept "$place"
		topleak -0 -k code -n 1 core
		has_row 'callback \(main\) at main.c:2'
		rm "$place"
	done
	for place in "debug/$PWD/main.debug" "debug/.build-id/${id:0:2}/${id:2}.debug"; do
		install -D kept "$place"
		topleak -0 --debug-dir debug -k code -n 1 core
		has_row 'callback \(main\) at main.c:2'
		rm "$place"
	done
	# One of another build is not used.
	sed -i 's/return 1/return 2/' main.c
	"${CC:-cc}" -g -o other main.c
	objcopy --only-keep-debug other main.debug
	topleak -0 -k code -n 1 core
	has_row 'main\+0x[0-9a-f]+'
}

@test "the program itself from a build-id directory" {
	little leak
	kernel_core core ./leak
	local id
	id=$(build_id leak)
	install -D leak "debug/.build-id/${id:0:2}/${id:2}"
	rm leak
	topleak -0 --debug-dir debug core
	has_row 'vtable for A\+16 \(leak\)'
}

@test "compressed debug sections and MiniDebugInfo" {
	needs xz
	cat >main.c <<-'END'
		#include <stdlib.h>
		static int callback(void) { return 1; }
		static int (*volatile *table)(void);
		int main(void)
		{
			table = calloc(1000, sizeof *table);
			for (int i = 0; i < 1000; i++)
				table[i] = callback;
			abort();
		}
	END
	"${CC:-cc}" -g -gz=zlib -o main main.c
	kernel_core core ./main
	topleak -0 -k code -n 1 core
	has_row 'callback \(main\) at main.c:2'
	objcopy --strip-debug main mini
	xz mini
	strip -s main
	objcopy --add-section .gnu_debugdata=mini.xz main
	topleak -0 -k code -n 1 core
	has_row 'callback \(main\)'
}

@test "a debuginfod server is asked with --debuginfod only" {
	needs debuginfod curl strace
	cat >main.c <<-'END'
		#include <stdlib.h>
		static int callback(void) { return 1; }
		static int (*volatile *table)(void);
		int main(void)
		{
			table = calloc(1000, sizeof *table);
			for (int i = 0; i < 1000; i++)
				table[i] = callback;
			abort();
		}
	END
	mkdir served
	"${CC:-cc}" -g -o served/main main.c
	cp served/main main
	strip -s main
	kernel_core core ./main
	export DEBUGINFOD_CACHE_PATH=$PWD/cache DEBUGINFOD_URLS
	local port=$((20000 + RANDOM % 20000)) server
	DEBUGINFOD_URLS=
	debuginfod -d "$PWD/db.sqlite" -p "$port" -F served >log 2>&1 3>&- &
	server=$!
	DEBUGINFOD_URLS=http://127.0.0.1:$port
	await curl -sfo /dev/null "$DEBUGINFOD_URLS/buildid/$(build_id main)/debuginfo"
	run --separate-stderr strace -f -qq -e trace=connect -o calls "$TOPLEAK" -k code -n 1 core
	lacks "$(cat calls)" AF_INET
	has_row 'main\+0x[0-9a-f]+'
	topleak -0 --debuginfod -k code -n 1 core
	# And the program itself, if it is not here.
	mv main gone
	local first=$output
	topleak -0 --debuginfod -k code -n 1 core
	kill "$server"
	equal "$first" "$output"
	has_row 'callback \(main\) at main.c:2'
}

@test "--debuginfod without a server, or with one that does not answer, is a warning or nothing" {
	little leak
	kernel_core core ./leak
	strip -s leak
	DEBUGINFOD_URLS='' topleak -0 --debuginfod core
	has_row 'vtable for A\+16 \(leak\)'
	contains "$stderr" DEBUGINFOD_URLS
	# A port that nobody listens at; DEBUGINFOD_CACHE_PATH would be the home otherwise.
	DEBUGINFOD_CACHE_PATH=$PWD/cache DEBUGINFOD_URLS=http://127.0.0.1:9 topleak -0 --debuginfod core
	has_row 'vtable for A\+16 \(leak\)'
	# One that accepts and says nothing: ten seconds are waited for in all.
	needs perl
	local server port=$((20000 + RANDOM % 20000)) start=$SECONDS
	perl -MIO::Socket::INET -e '
		my $socket = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 9) or exit 1;
		open my $listens, ">", "listens";
		push @clients, $socket->accept while 1;' "$port" 3>&- &
	server=$!
	await [ -e listens ]
	DEBUGINFOD_CACHE_PATH=$PWD/cache DEBUGINFOD_URLS=http://127.0.0.1:$port topleak -0 --debuginfod -k code,data core
	kill "$server"
	has_row 'vtable for A\+16 \(leak\)'
	[ $((SECONDS - start)) -lt 60 ]
}

@test "--no-demangle prints symbols as they are" {
	little leak
	kernel_core core ./leak
	topleak -0 --no-demangle core
	has_row '_ZTV1A\+16 \(leak\)'
	strip -s leak
	topleak -0 --no-demangle core
	has_row '_ZTV1A\+16 \(leak\)'
}

@test "without libdw and libiberty there are class names and offsets all the same" {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	make -C "$repo" BUILD="$PWD/build" HAVE_LIBDW=0 HAVE_LIBIBERTY=0 CFLAGS=-Werror >/dev/null
	little leak
	kernel_core core ./leak
	TOPLEAK=$PWD/build/topleak
	topleak -0 core
	has_row '_ZTV1A\+16 \(leak\)'
}

@test "the header names the program, what is missing, and with -v all" {
	little leak
	kernel_core core ./leak
	topleak -0 -v core
	contains "$stderr" "memory: heap "
	contains "$stderr" "$PWD/leak: build-id ok, at 0x"
	contains "$stderr" "build-id $(build_id leak)"
	contains "$stderr" "[vdso]: ok"
	rm leak
	topleak -0 -v core
	contains "$stderr" "$PWD/leak: missing"
}

@test "more libraries than the soft limit of open files: all have names" {
	local symbol machine i
	cd "$BATS_TEST_TMPDIR"
	"${CC:-cc}" -shared -nostdlib -Wl,--build-id=0x0102030405060708 -Wl,-z,noseparate-code -o lib.so -x c - \
		<<<"void function(void) {}" || skip "no linker for this"
	machine=$(od -An -tu2 -j18 -N2 lib.so)
	symbol=$(nm lib.so | sed -n 's/ T function$//p')
	# One library, with a hundred build-ids.
	perl -e 'local $/; my $lib = <>; for (1 .. 100) {
		(my $copy = $lib) =~ s/\x01\x02\x03\x04\x05\x06\x07\x08/pack "Q", $_/e;
		open my $out, ">:raw", "lib$_.so"; print $out $copy }' lib.so
	mkcore core "my (\$n, \$base) = (100, 0x7f0000000000);
		my @page = map { local (@ARGV, \$/) = qq(lib\$_.so); substr <>, 0, 4096 } 1 .. \$n;
		machine => $machine, notes => [{ name => 'CORE', type => 0x46494c45, desc => pack('Q<2', \$n, 4096) .
			pack('Q<*', map { (\$base + \$_ * 0x1000000, \$base + \$_ * 0x1000000 + 4096, 0) } 1 .. \$n) .
			join('', map { qq($PWD/lib\$_.so\0) } 1 .. \$n) }],
		segments => [{ vaddr => 0x10000, words => [map { \$base + \$_ * 0x1000000 + 0x$symbol } 1 .. \$n] },
			map { { vaddr => \$base + \$_ * 0x1000000, bytes => \$page[\$_ - 1], memsz => 0x100000, flags => 5 } } 1 .. \$n]"
	ulimit -Sn 64
	topleak -0 -q -n 1000 core
	[ "$(grep -c ' : 1  function (lib[0-9]*.so)$' <<<"$output")" -eq 100 ]
}

# A program that makes objects of its own, and others in a library that is loaded and perhaps closed.
plugin() {
	cat >plugin.cpp <<-'END'
		struct Plug { virtual ~Plug() {} char bytes[56] = {1}; };
		void *volatile last;
		extern "C" void make() { for (int i = 0; i < 2000; i++) last = new Plug; }
	END
	cat >main.cpp <<-'END'
		#include <cstdlib>
		#include <dlfcn.h>
		struct Own { virtual ~Own() {} char bytes[100] = {2}; };
		void *volatile last;
		int main(int argc, char **argv)
		{
			void *library = dlopen(argv[1], RTLD_NOW);
			if (library == nullptr)
				return 1;
			reinterpret_cast<void (*)()>(dlsym(library, "make"))();
			for (int i = 0; i < 1000; i++)
				last = new Own;
			if (argc > 2)
				dlclose(library);
			abort();
		}
	END
	"${CXX:-c++}" -O1 -shared -fPIC "${@:2}" -o libplug.so plugin.cpp
	# shellcheck disable=SC2086 # several flags
	"${CXX:-c++}" -O1 $1 -o main main.cpp -ldl
}

# without CORE TYPE...: the notes of these types become others, which nobody knows
without() {
	perl -e 'my ($path, %type) = ($ARGV[0], map { hex, 1 } @ARGV[1 .. $#ARGV]);
		open my $core, "+<:raw", $path or die;
		my $read = sub { my ($at, $size) = @_; my $bytes; seek $core, $at, 0; read $core, $bytes, $size; $bytes };
		my ($table, $count) = unpack "Q< x16 S<", $read->(32, 26);
		for my $i (0 .. $count - 1) {
			my ($kind, $flags, $offset, $address, $physical, $size) = unpack "L<2 Q<4", $read->($table + 56 * $i, 40);
			next if $kind != 4;
			for (my $at = $offset; $at < $offset + $size;) {
				my ($name, $desc, $type) = unpack "L<3", $read->($at, 12);
				if ($type{$type}) { seek $core, $at + 8, 0; print $core pack "L<", 0x7fff0001 }
				$at += 12 + ($name + 3 & ~3) + ($desc + 3 & ~3);
			}
		}' "$@"
}

@test "without a list of files and an auxiliary vector: --exe leads to the libraries" {
	local flag
	for flag in "" "-no-pie -fno-pie"; do
		plugin "$flag"
		kernel_core core ./main "$PWD/libplug.so"
		without core 46494c45 6
		topleak -0 --types -ojson core
		is '[.types[] | select(.kind == "class" or .kind == "struct")] == []'
		equal "$(grep -c . <<<"$stderr")" 1
		contains "$stderr" "no program is known"
		topleak -0 --types -ojson --exe main core
		[ -z "$stderr" ]
		is '[.types[] | select(.sites.heap >= 1000 and .sites.heap <= 2000) | .name] == ["Plug", "Own"]'
		# Another program is not this one, and is not compared with libraries.
		cp /bin/true other
		topleak -0 --types --exe other core
		equal "$(grep -c . <<<"$stderr")" 1
		contains "$stderr" "other: is not the program of core"
	done
}

@test "libraries that were prelinked lie where their program headers say" {
	plugin "-no-pie -fno-pie" -Wl,-Ttext-segment=0x3000000000
	kernel_core core ./main "$PWD/libplug.so"
	without core 46494c45
	topleak -0 --types -ojson core
	is '[.types[] | select(.sites.heap >= 1000 and .sites.heap <= 2000) | .name] == ["Plug", "Own"]'
	is '.modules | any(.path | endswith("/libplug.so"))'
}

@test "objects of a library that was unloaded" {
	plugin ""
	kernel_core core ./main "$PWD/libplug.so" closed
	topleak -0 --types core
	contains "${lines[1]}" "-> not mapped, 0x"
	contains "${lines[1]}" "(a library that was unloaded?)"
	topleak -0 --types -ojson core
	is '.types[0] | .count == 2000 and .kind == "unnamed" and .module == ""'
	topleak -0 --leaks -ojson core
	is '[.types[] | select(.name | startswith("-> not mapped, 0x")) | .count] | add >= 1999'
	topleak -0 -n 20 core
	contains "$output" " : 2000  not mapped (a library that was unloaded?)"
}

@test "program headers that the dump has not: the file is compared by its header and its mappings" {
	local other map="{ name => 'CORE', type => 0x46494c45, desc => pack('Q<2', 3, 4096) .
		pack('Q<9', 0x7f0000000000, 0x7f0000001000, 0, 0x7f0000002000, 0x7f0000008000, 2, 0x7f0000008000, 0x7f0000009000, 8)
		. \"$PWD/lib.so\\0\" x 3 }"
	# As BOLT writes it, the table is behind everything else; between the segments pages of the file are left.
	mkcore lib.so 'type => 3, table => "end", segments => [{ vaddr => 0, offset => 0, filesz => 0x1000, memsz => 0x1000, flags => 4 },
		{ vaddr => 0x8000, offset => 0x8000, words => [(1) x 512], flags => 5 }]'
	mkcore core "pid => 1, signal => 6, command => 'a', notes => [$map], segments => [
		{ vaddr => 0x7f0000000000, flags => 4, bytes => do { local (@ARGV, \$/) = 'lib.so'; substr <>, 0, 4096 } },
		{ vaddr => 0x7f0000002000, filesz => 0, memsz => 0x6000, flags => 4, words => [] },
		{ vaddr => 0x7f0000008000, filesz => 0, memsz => 0x1000, flags => 5, words => [] }]"
	topleak -0 -ojson core
	[ -z "$stderr" ]
	is '.modules | any(.path | endswith("/lib.so"))'
	is '[.modules[] | .state] == ["unverified"]'
	# Another entry point is another file.
	cp lib.so other
	printf '\1' | dd of=lib.so bs=1 seek=24 conv=notrunc 2>/dev/null
	topleak -0 -ojson core
	is '[.modules[] | .state] == ["mismatch"]'
}
