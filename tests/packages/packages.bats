#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The packages, built, installed in clean roots, run and removed: `make check-packages`.

load ../lib/common

setup_file() {
	unset MAKEFLAGS MFLAGS MAKELEVEL
	DEB_BUILD_OPTIONS=nocheck make -s -C "$repo" deb BUILD=build/packages >&2 3>&-
	make -s -C "$repo" static BUILD=build/packages >&2 3>&-
}

setup() {
	unset MAKEFLAGS MFLAGS MAKELEVEL
	built=$repo/build/packages
	deb=("$built"/deb/topleak_*.deb)
	# The roots stay for the next time.
	roots=$built/roots
}

# fresh_root RELEASE: makes $root
fresh_root() {
	[ "$(id -u)" -eq 0 ] || skip "not root"
	needs debootstrap
	local pristine=$roots/$1.tar
	if [ ! -e "$pristine" ]; then
		mkdir -p "$roots"
		debootstrap --variant=minbase "$1" "$BATS_TEST_TMPDIR/new" >&2 || skip "$1 cannot be had"
		tar -C "$BATS_TEST_TMPDIR/new" -cf "$pristine.part" .
		rm -rf "$BATS_TEST_TMPDIR/new"
		mv "$pristine.part" "$pristine"
	fi
	root=$BATS_TEST_TMPDIR/root
	mkdir -p "$root"
	tar -C "$root" -xf "$pristine"
	cp /etc/resolv.conf "$root/etc/"
	mount -t proc proc "$root/proc"
}

teardown() {
	[ -z "${root-}" ] || ! mountpoint -q "$root/proc" || umount "$root/proc"
}

inside() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
}

# What is in the root, but for the package manager's own notes.
contents() {
	(cd "$root" && find . -xdev \( -path ./proc -o -path ./tmp -o -path ./var/cache -o -path ./var/lib/apt -o \
		-path ./var/lib/dpkg -o -path ./var/log \) -prune -o -print | sort)
}

# The leaking program with its core, in /tmp of the root.
copy_leak() {
	mkdir -p "$root/tmp"
	cp "$(leak)" "$root/tmp/leak"
	cp "$(leak_core)" "$root/tmp/leak.core"
}

# The output is the leak's, with a name.
found_leak() {
	contains "$output" " : 1000001  12345678910"
	contains "$output" " : 1000001  vtable for A+16 (leak)"
}

@test "the package is installed in a clean root, runs, and leaves nothing behind when it is removed" {
	fresh_root bookworm
	local before
	inside apt-get -qq update
	before=$(contents)
	cp "${deb[0]}" "$root/tmp/topleak.deb"
	inside apt-get -qq install -y --no-install-recommends /tmp/topleak.deb
	copy_leak
	run -0 inside topleak /tmp/leak /tmp/leak.core
	found_leak
	inside apt-get -qq purge -y --autoremove topleak
	equal "$(contents)" "$before"
}

@test "the package passes its own test" {
	fresh_root bookworm
	cp "${deb[0]}" "$root/tmp/topleak.deb"
	inside apt-get -qq update
	# shellcheck disable=SC2046 # a package a word
	inside apt-get -qq install -y --no-install-recommends /tmp/topleak.deb \
		$(sed -n 's/^Depends: @, //p' "$repo/scripts/packaging/debian/tests/control" | tr -d ,)
	mkdir "$root/tmp/source"
	tar -C "$root/tmp/source" --strip-components=1 -xf "$built"/topleak-*.tar.gz
	mv "$root/tmp/source/scripts/packaging/debian" "$root/tmp/source/debian"
	inside /tmp/source/debian/tests/leak
}

@test "the tarball passes its tests, away from git" {
	local folder=$BATS_TEST_TMPDIR/source
	mkdir "$folder"
	tar -C "$folder" --strip-components=1 -xf "$built"/topleak-*.tar.gz
	# As if no bats ran around it.
	(
		PATH=${PATH//"$BATS_LIBEXEC:"/}
		unset "${!BATS_@}"
		make -s -C "$folder" check >&2 3>&-
	)
}

@test "builds in two folders give the same package and the same static program" {
	local folder=$BATS_TEST_TMPDIR/another/longer
	mkdir -p "$folder"
	tar -C "$folder" --strip-components=1 -xf "$built"/topleak-*.tar.gz
	make -s -C "$folder" static >&2
	cmp "$folder/build/static/topleak" "$built/static/topleak"
	cmp "$folder/build/static/topleak.licenses" "$built/static/topleak.licenses"
	DEB_BUILD_OPTIONS=nocheck make -s -C "$folder" deb >&2
	cmp "$folder"/build/deb/topleak_*.deb "${deb[0]}"
}

@test "the static program needs nothing, and has names" {
	[ "$(id -u)" -eq 0 ] || skip "not root"
	root=$BATS_TEST_TMPDIR/empty
	mkdir -p "$root"
	copy_leak
	cp "$built/static/topleak" "$root/topleak"
	run -0 inside /topleak /tmp/leak /tmp/leak.core
	found_leak
	gzip "$root/tmp/leak.core"
	run -0 inside /topleak /tmp/leak /tmp/leak.core.gz
	found_leak
	run -0 --separate-stderr inside /topleak -q --debuginfod /tmp/leak /tmp/leak.core.gz
	contains "$stderr" "--debuginfod: a static build"
}

@test "the static program runs on an old release" {
	fresh_root bullseye
	copy_leak
	cp "$built/static/topleak" "$root/tmp/topleak"
	run -0 inside /tmp/topleak /tmp/leak /tmp/leak.core
	found_leak
	inside sh -c 'sleep 60 & sleep 1; /tmp/topleak -n 3 --pid $!; kill $!' | grep zero
}

@test "the static program says what it cannot do, and the licences of what it contains" {
	run -0 "$built/static/topleak" --version
	contains "$output" "--debuginfod is not possible"
	contains "$output" "libelf"
	local archive
	for archive in libc libgcc libdw libelf libiberty libjansson libarchive libz libzstd liblz4 liblzma libbz2; do
		grep -qE "^([a-z0-9_.]+, )*$archive\.a[:,]" "$built/static/topleak.licenses" || { echo "$archive" && false; }
	done
	contains "$(cat "$built/static/topleak.licenses")" "GNU LESSER GENERAL PUBLIC LICENSE"
}
