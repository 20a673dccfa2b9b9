#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Class names of stripped programs, from what the compiler leaves in memory.

load lib/common

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# The classes of fixtures/classes.cpp, as they are named without symbols on 64 bits; of the tables of
# classes with virtual bases only those that every compiler uses.
expected_64='vtable for shapes::(anonymous namespace)::Anonymous+16
vtable for shapes::BelowVirtual (base at +0)
vtable for shapes::BelowVirtual (base at +16)
vtable for shapes::Diamond (base at +0)
vtable for shapes::Diamond (base at +8)
vtable for shapes::Multiple (base at +16)
vtable for shapes::Multiple+16
vtable for shapes::Other+16
vtable for shapes::Plain+16
vtable for shapes::Single+16
vtable for shapes::Template<int, 1u>+16
vtable for shapes::Template<shapes::Single*, 3u>+16
vtable for shapes::Template<shapes::Template<int, 1u>, 2u>+16
vtable for shapes::Virtual (base at +0)
vtable for shapes::Virtual (base at +16)
vtable for shapes::local()::Local+16'
expected_32=$(sed 's/+16$/+8/; s/at +8)/at +4)/; s/at +16)/at +8)/' <<<"$expected_64")

# names CORE [ARG]: what the words are that occur a thousand times, without the module
names() {
	"$TOPLEAK" -k code,data --min-count 990 -n 100 "${@:2}" "$1" | sed 's/^[^ ]* : [0-9]*  //; s/ ([^()]*)$//' | sort -u
}

# without_places: the class only
without_places() {
	sed 's/+[0-9]*$//; s/ (base at +[0-9]*)$//' | sort -u
}

# compiled COMPILER FLAG...: builds the fixture, and has its cores: named with symbols, then without
compiled() {
	needs "$1"
	"$@" -o classes "$repo/fixtures/classes.cpp" || skip "$* does not work"
	dump -k core ./classes || skip "the kernel writes no core where it can be read"
	names core >symbols
	"${strip:-strip}" -s classes
	names core >rtti
	equal "$(grep -v 'Diamond (base at +16)\|Diamond (base at +8) *32' rtti)" "$(sort <<<"${expected:-$expected_64}")"
	# Both say the same class, and the same place where there is no virtual base.
	equal "$(without_places <rtti)" "$(without_places <symbols)"
	equal "$(grep '+16$' rtti)" "$(grep -v 'Virtual\|Diamond' symbols | grep '+16$')"
}

@test "g++" { compiled g++ -O1; }
@test "g++, position dependent" { compiled g++ -O2 -fno-pie -no-pie; }
@test "g++ -static" { compiled g++ -static; }
@test "g++ -static-pie" { compiled g++ -static-pie; }
@test "clang++" { compiled clang++ -O1; }
@test "clang++, position dependent" { compiled clang++ -fno-pie -no-pie; }
@test "clang++ and lld" {
	needs ld.lld
	compiled clang++ -fuse-ld=lld
}

# Linkers that make no segment of their own for constants put vtables behind the code.
@test "g++, vtables in an executable segment" { compiled g++ -O1 -fno-pie -no-pie -Wl,-z,noseparate-code; }
@test "g++ and gold, vtables in an executable segment" {
	needs ld.gold
	compiled g++ -O1 -fno-pie -no-pie -fuse-ld=gold
}
@test "g++, position independent, in two segments" { compiled g++ -O1 -Wl,-z,noseparate-code; }

@test "vtables in an executable segment: types, leaks and objects of a class" {
	cat >main.cpp <<-'END'
		#include <cstdlib>
		struct Widget { virtual ~Widget() {} long fields[3] = {}; };
		struct Gadget { virtual ~Gadget() {} long fields[8] = {}; };
		static Widget *widgets[5000];
		static Gadget *gadgets[3500];
		int main()
		{
			for (auto &widget : widgets)
				widget = new Widget;
			for (auto &gadget : gadgets)
				gadget = new Gadget;
			for (int i = 0; i < 1000; i++)
				gadgets[i] = nullptr;
			abort();
		}
	END
	local linker
	for linker in -Wl,-z,noseparate-code -fuse-ld=gold; do
		"${CXX:-c++}" -O1 -fno-pie -no-pie "$linker" -o main main.cpp || continue
		dump -k core ./main || skip "the kernel writes no core where it can be read"
		for symbols in yes no; do
			[ $symbols = yes ] || strip -s main
			topleak -0 --types -ojson core
			is '[.types[] | select(.where == "heap" and .kind == "class") | .name, .count] == ["Gadget", 3500, "Widget", 5000]'
			topleak -0 --leaks -ojson core
			is '[.types[] | .name, .count] == ["Gadget", 1000]'
			topleak -0 --type Gadget core
			contains "${lines[0]}" "vtable for Gadget+16 (main)"
		done
	done
}

@test "-fno-rtti: offsets in the module, never a class" {
	g++ -fno-rtti -o classes "$repo/fixtures/classes.cpp"
	dump -k core ./classes || skip "the kernel writes no core where it can be read"
	strip -s classes
	names core >rtti
	[ "$(wc -l <rtti)" -ge 14 ]
	[ "$(grep -cv '^classes+0x[0-9a-f]*$' rtti)" -eq 0 ]
}

@test "a program that was deleted, from a core with its pages" {
	g++ -o classes "$repo/fixtures/classes.cpp"
	dump -k -f 0x37 core ./classes || skip "the kernel writes no core where it can be read"
	rm classes
	equal "$(names core | grep -v 'Diamond (base at +16)')" "$(sort <<<"$expected_64")"
}

@test "a stripped program without the C++ library it ran with" {
	local library
	g++ -o classes "$repo/fixtures/classes.cpp" -Wl,-rpath,"$PWD/lib"
	library=$(ldd classes | awk '$1 == "libstdc++.so.6" { print $3 }')
	[ -e "$library" ] || skip "no libstdc++.so.6"
	mkdir lib
	cp -L "$library" lib/
	dump -k core ./classes || skip "the kernel writes no core where it can be read"
	strip -s classes
	rm -r lib
	equal "$(names core | grep -v 'Diamond (base at +16)')" "$(sort <<<"$expected_64")"
}

# emulated TRIPLET QEMU BITS: the same for another machine, whose cores have neither build-ids nor a
# list of mapped files
emulated() {
	needs "$1-g++" "$1-strip" "$2"
	"$1-g++" -static -o classes "$repo/fixtures/classes.cpp"
	cat >run <<-END
		#!/bin/sh
		exec $2 $PWD/classes
	END
	chmod +x run
	dump -k core ./run || skip "no core from $2"
	names core >symbols
	"$1-strip" -s classes
	names core >rtti
	local expected=expected_$3
	equal "$(grep -v "Diamond (base at +$(($3 / 4)))" rtti)" "$(sort <<<"${!expected}")"
	equal "$(without_places <rtti)" "$(without_places <symbols)"
	mv classes moved
	lacks "$(names core)" "vtable"
	equal "$(names core --exe moved)" "$(sed "s/classes/moved/" rtti)"
}

@test "s390x: 64 bits, big-endian" { emulated s390x-linux-gnu qemu-s390x 64; }
@test "powerpc: 32 bits, big-endian" { emulated powerpc-linux-gnu qemu-ppc 32; }
@test "arm: 32 bits, little-endian" { emulated arm-linux-gnueabi qemu-arm 32; }

@test "i386: a 32-bit core of this kernel" {
	needs i686-linux-gnu-g++
	i686-linux-gnu-g++ -static -o classes "$repo/fixtures/classes.cpp"
	dump -k core ./classes || skip "no 32-bit programs here"
	strip -s classes
	equal "$(names core | grep -v 'Diamond (base at +8)')" "$(sort <<<"$expected_32")"
}

@test "a C program whose structs hold function pointers" {
	cat >main.c <<-'END'
		#include <stdlib.h>
		static int on_read(void) { return 1; }
		static int on_write(void) { return 2; }
		struct methods { int (*read)(void), (*write)(void); };
		static const struct methods methods = { on_read, on_write };
		struct file { int number; const struct methods *methods; int (*callback)(void); };
		static struct file *volatile last;
		int main(void)
		{
			for (int i = 0; i < 1000; i++) {
				last = calloc(1, sizeof *last);
				last->methods = &methods;
				last->callback = on_read;
			}
			abort();
		}
	END
	"${CC:-cc}" -g -O0 -o main main.c
	dump -k core ./main || skip "the kernel writes no core where it can be read"
	topleak -0 -k code,data --min-count 1000 core
	contains "$output" "  methods (main)"
	contains "$output" "  on_read (main) at main.c:2"
	strip -s main
	topleak -0 -k code,data --min-count 1000 core
	[ "$(grep -c '  main+0x' <<<"$output")" -eq 2 ]
}

@test "Rust: trait objects" {
	needs rustc
	cat >main.rs <<-'END'
		trait Shape { fn area(&self) -> u64; }
		struct Square { side: u64, name: String }
		impl Shape for Square { fn area(&self) -> u64 { self.side * self.side + self.name.len() as u64 } }
		fn main() {
		    let mut shapes: Vec<Box<dyn Shape>> = Vec::new();
		    for i in 0..1000 { shapes.push(Box::new(Square { side: i, name: String::new() })); }
		    println!("{}", shapes.iter().map(|shape| shape.area()).sum::<u64>());
		    std::process::abort();
		}
	END
	rustc -o main main.rs || skip "rustc does not work"
	dump -k core ./main || skip "the kernel writes no core where it can be read"
	topleak -0 -k data --min-count 1000 core
	contains "$output" "vtable with drop_in_place<main::Square> (main)"
	topleak -0 --types -ojson core
	is '[.types[] | select(.name == "-> vtable with drop_in_place<main::Square> @+8") | .kind] | length > 0 and all(. == "struct")'
	strip -s main
	topleak -0 -k data --min-count 1000 core
	contains "$output" "  main+0x"
}

@test "names go from one question to the next as they are, not as they are printed" {
	cat >main.cpp <<-'END'
		#include <cstdlib>
		struct Base { virtual ~Base() {} };
		static Base *make(void (*)(int))
		{
			struct Local : Base { long fields[3] = {}; };
			return new Local;
		}
		struct Holder { virtual ~Holder() {} Base *held; };
		static Holder *volatile kept;
		int main()
		{
			for (int i = 0; i < 1000; i++) {
				kept = new Holder;
				kept->held = make(nullptr);
			}
			abort();
		}
	END
	"${CXX:-c++}" -O1 -o main main.cpp
	dump -k core ./main || skip "the kernel writes no core where it can be read"
	for symbols in yes no; do
		[ $symbols = yes ] || strip -s main
		topleak -0 --type Holder --around=0:1 core
		contains "$output" "  pointer to make(void (*)(int))::Local"
		topleak -0 --type Holder --no-demangle --around=0:1 core || topleak -0 --type 6Holder --no-demangle --around=0:1 core
		contains "$output" "  pointer to Z"
	done
}
