#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What can be said of the packages without building them; tests/packages/ has the rest.

load lib/common

setup() {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	cd "$repo"
	unset MAKEFLAGS MFLAGS
	version=$(sed -n 's/^VERSION := //p' Makefile)
}

@test "the tarball is the same whenever and wherever it is packed, with git and without" {
	local work=$BATS_TEST_TMPDIR name=topleak-$version.tar.gz
	make -s dist BUILD="$work/first"
	tar -C "$work" -xf "$work/first/$name"
	find "$work/topleak-$version" -exec touch {} +
	make -s -C "$work/topleak-$version" dist
	cmp "$work/first/$name" "$work/topleak-$version/build/$name"
	[ ! -e .git ] || ! command -v git >/dev/null ||
		equal "$(tar -tf "$work/first/$name" | sed 's,^[^/]*/,,')" "$(git ls-files | sort)"
}

@test "all agree on the version" {
	equal "$(sed -n '1s/^topleak \([^ ]*\) (20..-..-..)$/\1/p' NEWS)" "$version"
	equal "$(sed -n '1s/^topleak (\([^-]*\)-.*/\1/p' scripts/packaging/debian/changelog)" "$version"
	equal "$("$TOPLEAK" --version | head -n 1)" "topleak $version"
}

@test "the packages' scripts are sound" {
	needs shellcheck
	shellcheck scripts/packaging/dist scripts/packaging/deb scripts/packaging/debian/tests/leak
}
