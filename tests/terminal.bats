#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What differs on a terminal: colours, the width of lines, progress.

load lib/common

setup() {
	needs script
	core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x7f1000, words => [0x7f1010, 0x7f1010, 0, 0x6c6c6c6c6c6c6c6c] }]'
}

# terminal COMMAND: what a terminal of 40 columns gets
terminal() {
	TERM=xterm script -qec "stty cols 40; $1" /dev/null </dev/null | tr -d '\r'
}

@test "descriptions are cut in the middle to the width of a terminal, and whole elsewhere" {
	local whole="0x00000000007f1010 : 2  anonymous memory at 0x7f1000+0x10"
	topleak -0 "$core"
	contains "$output" "$whole"
	local cut
	cut=$(terminal "'$TOPLEAK' -q --color=never '$core'" | head -n 1)
	equal "${#cut}" 40
	contains "$cut" "..."
	equal "${cut%%...*}" "${whole:0:$((${#cut} - 3 - 6))}"
	equal "${cut##*...}" "${whole: -6}"
}

@test "colours: on a terminal only, unless NO_COLOR or --color says otherwise" {
	local escape=$'\e['
	contains "$(terminal "'$TOPLEAK' -q '$core'")" "$escape"
	local command
	for command in "NO_COLOR=1 '$TOPLEAK' -q '$core'" "TERM=dumb '$TOPLEAK' -q '$core'" \
		"'$TOPLEAK' -q --color=never '$core'" "'$TOPLEAK' -q '$core' | cat"; do
		[[ $(terminal "$command") != *"$escape"* ]]
	done
	topleak -0 "$core"
	[[ $output != *"$escape"* ]]
	topleak -0 --color always "$core"
	contains "$output" "${escape}33m\"llllllll\"${escape}0m"
	NO_COLOR=1 topleak -0 --color always -o csv "$core"
	[[ $output != *"$escape"* ]]
}

@test "progress: for long work only, erased at the end, never in a pipe" {
	# Where the machine stands still, even this is long.
	local tries
	for tries in 1 2 3 4 5; do
		topleak -0 --progress always "$core"
		[ -n "$stderr" ] || break
	done
	equal "$stderr" ""
	# Two seconds of input through a pipe.
	slow() {
		for _ in 1 2 3 4; do
			head -c 3000000 /dev/zero
			sleep 0.5
		done
	}
	slow | "$TOPLEAK" -r --progress always - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	contains "$(<"$BATS_TEST_TMPDIR/err")" "GB/s"
	# Nothing is left on the line.
	equal "$(tail -c 4 "$BATS_TEST_TMPDIR/err")" $'\r\e[K'
	slow | "$TOPLEAK" -r - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	equal "$(<"$BATS_TEST_TMPDIR/err")" ""
	slow | "$TOPLEAK" -r --progress never - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	equal "$(<"$BATS_TEST_TMPDIR/err")" ""
}

@test "the lines above the rows break between words on a terminal, and nowhere else" {
	local lines
	lines=$(terminal "'$TOPLEAK' -n 1 '$core' 2>&1 >/dev/null" | sed '/^next:/,$d')
	[[ $lines == *$'\n  '* ]]
	"$TOPLEAK" -v -n 1 "$core" 2>"$BATS_TEST_TMPDIR/err" >/dev/null
	contains "$(tr -s '\n ' ' ' <<<"$lines")" "$(head -n 1 "$BATS_TEST_TMPDIR/err")"
	equal "$(grep -c "^  " "$BATS_TEST_TMPDIR/err")" 0
	# Only a path can be longer.
	equal "$(grep -v / <<<"$lines" | awk 'length > 40')" ""
}

# ---- tables, of a program with long names

# A core of the service of docs.bats.
service_core() {
	local program
	program=$(fixture service "${CXX:-c++}" -O2 -pthread -o @ "$repo/fixtures/service.cpp")
	fixture service.core "$repo/scripts/dump" @ "$program" 32M
}

# on_terminal COLUMNS ARG...: what topleak writes to such a terminal
on_terminal() {
	TERM=xterm script -qec "stty cols $1; '$TOPLEAK' -q$(printf " '%s'" "${@:2}")" /dev/null </dev/null | tr -d '\r'
}

# fits COLUMNS: no line on stdin is longer, and there are some
fits() {
	perl -CS -se 'while (<STDIN>) { chomp; $lines++; print("$_\n"), $wide++ if length > $columns }
		exit(!$lines || $wide > 0)' -- -columns="$1"
}

# aligned: in the table on stdin the columns behind TYPE begin where their titles do
aligned() {
	perl -ne 'chomp; $header = $_ if /TYPE/;
		next if !defined $header || !/^ *\d+ /;
		$rows++;
		for my $at (grep { $_ > 0 } map { index $header, $_ } qw(MODULE WHERE EXAMPLE)) {
			print("$_\n"), $bad++ if length > $at && substr($_, $at - 2, 3) !~ /^  ./;
		}
		END { exit(!$rows || $bad > 0) }'
}

@test "progress: each pass has its own, and no time is told before anything is known" {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	local core clock=$BATS_TEST_TMPDIR/clock.so question
	core=$(service_core)
	# Where time goes a thousand times as fast, all takes long.
	"${CC:-cc}" -shared -fPIC -x c -o "$clock" - <<-'END'
		#include <sys/syscall.h>
		#include <time.h>
		#include <unistd.h>
		int clock_gettime(clockid_t id, struct timespec *now)
		{
			if (syscall(SYS_clock_gettime, id, now) != 0)
				return -1;
			long nanoseconds = now->tv_sec % 100000 * 1000000000 + now->tv_nsec;
			now->tv_sec = nanoseconds / 1000000;
			now->tv_nsec = nanoseconds % 1000000 * 1000;
			return 0;
		}
	END
	for question in "" --types --leaks --strings "--type Product --owners"; do
		# shellcheck disable=SC2086
		LD_PRELOAD=$clock "$TOPLEAK" -q --progress always $question "$core" 2>"$BATS_TEST_TMPDIR/err" >"$BATS_TEST_TMPDIR/out"
		perl -e '$/ = "\r\e[K"; while (<STDIN>) {
				chomp; next if $_ eq "";
				/^(?:pass (\d+): )?(\d+) %(, [\d.]+ GB\/s(, \d+ s left)?)?$/ or die "not so: $_\n";
				$passes{$1 // 1}++;
				die "too early: $_\n" if $2 < 1 && defined $3;
				$measured += defined $3;
			}
			# The walk, marking, and what points at what was lost.
			die join " ", %passes if !$measured || !$passes{1} || ($ARGV[0] && !($passes{2} && $passes{3}))' \
			"$([[ $question != --leaks ]] || echo 1)" <"$BATS_TEST_TMPDIR/err"
	done
}

@test "tables: no line is wider than a terminal of 40 columns or more" {
	local core address columns question
	core=$(service_core)
	"$TOPLEAK" --types -n 1000000 -ojson "$core" | jq -c '.types |= map(.count += 1 | .bytes += 64)' >"$BATS_TEST_TMPDIR/old.json"
	address=$("$TOPLEAK" --types -n 100 "$core" | awk '/shop::Product,/ { print $NF; exit }')
	[ -n "$address" ]
	for columns in 40 41 60 80 100 132 200; do
		for question in --types --leaks --heap "--leaks --all" "--types --diff $BATS_TEST_TMPDIR/old.json" "--type Product --owners" \
			"--path $address" "--type Order --around" "--type Order --member 8,16:text,24,40"; do
			# shellcheck disable=SC2086
			on_terminal "$columns" --color=never $question "$core" >"$BATS_TEST_TMPDIR/out"
			fits "$columns" <"$BATS_TEST_TMPDIR/out" || { echo "# $columns columns: $question"; false; }
		done
	done
}

@test "tables: what a narrow terminal has no room for is left out, names are cut in the middle" {
	local core output
	core=$(service_core)
	output=$(on_terminal 200 --color=never --types "$core")
	equal "$(head -n 1 <<<"$output" | tr -s ' ')" " # COUNT SIZE BYTES % TYPE MODULE WHERE EXAMPLE"
	contains "$output" "std::_Sp_counted_ptr_inplace<shop::Session, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>"
	output=$(on_terminal 80 --color=never --types "$core")
	equal "$(head -n 1 <<<"$output" | tr -s ' ')" " # COUNT SIZE BYTES % TYPE EXAMPLE"
	[[ $output =~ " std::_Sp_"[a-z_]+"..."[a-zA-Z_:]+"policy)2> " ]]
	contains "$output" "  shop::Order  "
	output=$(on_terminal 40 --color=never --types "$core")
	[[ $(head -n 1 <<<"$output" | tr -s ' ') == *" COUNT "*TYPE ]]
	# At least 24 columns are for names.
	[ "$(sed -n 's/.*  \(std::.*\)/\1/p' <<<"$output" | head -n 1 | wc -m)" -ge 25 ]
	output=$(on_terminal 80 --color=never --leaks "$core")
	equal "$(head -n 1 <<<"$output" | tr -s ' ')" "# COUNT DIRECT SIZE BYTES % TYPE EXAMPLE"
	# The lines below break between words.
	contains "$(on_terminal 60 --color=never --types "$core" | tr -s '\n ' ' ')" "$("$TOPLEAK" --types "$core" | grep '^named:' | tr -s ' ')"
}

@test "tables: characters of several bytes are cut whole, and aligned" {
	local core old=$BATS_TEST_TMPDIR/old.json new=$BATS_TEST_TMPDIR/new.json
	core=$(service_core)
	"$TOPLEAK" --types -n 1000000 -ojson "$core" |
		jq -c '.types |= map(.name += "\u00e9\u0436\u00fc" * (1 + .count % 40))' >"$old"
	jq -c '.types |= map(.count += 5)' "$old" >"$new"
	on_terminal 70 --color=never --types --diff "$old" -n 20 "$new" >"$BATS_TEST_TMPDIR/out"
	fits 70 <"$BATS_TEST_TMPDIR/out"
	[[ $(<"$BATS_TEST_TMPDIR/out") =~ \.\.\.[éжü]*жüéжüéжü ]]
	iconv -f UTF-8 -t UTF-16 "$BATS_TEST_TMPDIR/out" >"$BATS_TEST_TMPDIR/converted"
	"$TOPLEAK" --types --diff "$old" -n 20 "$new" >"$BATS_TEST_TMPDIR/out"
	PERL_UNICODE=S aligned <"$BATS_TEST_TMPDIR/out"
}

@test "tables: in a file nothing is cut, and the columns are aligned" {
	local core question
	core=$(service_core)
	for question in --types --leaks; do
		"$TOPLEAK" $question -n 1000 "$core" >"$BATS_TEST_TMPDIR/out"
		aligned <"$BATS_TEST_TMPDIR/out"
		# What texts have in common is not cut.
		run -1 grep -F '...' <(sed 's/text "[^"]*\.\.\."//' "$BATS_TEST_TMPDIR/out")
		run -1 grep ' $' "$BATS_TEST_TMPDIR/out"
	done
	# The column behind the descriptions, too.
	"$TOPLEAK" --type Handshake --around "$core" >"$BATS_TEST_TMPDIR/out"
	equal "$(awk 'NR == 2 { at = index($0, "share") + 4; next } NR > 2 && !/--/ && substr($0, at, 1) != "%"' "$BATS_TEST_TMPDIR/out")" ""
}

@test "colours: names of types have those of the words that tell them" {
	local core escape=$'\e['
	core=$(service_core)
	contains "$("$TOPLEAK" --color=always --types "$core")" "${escape}32mshop::Order${escape}0m "
	contains "$("$TOPLEAK" --color=always --types -n 30 "$core")" "${escape}36m-> shop::on_retry(shop::timer*) @+0${escape}0m "
	contains "$("$TOPLEAK" --color=always --leaks "$core")" "${escape}32mshop::Order${escape}0m "
	contains "$("$TOPLEAK" --color=always --type Product --owners "$core")" "${escape}32mshop::Order${escape}0m (service)"
	contains "$("$TOPLEAK" --color=always --type Order --around "$core")" "${escape}32mvtable for shop::Order+16 (service)${escape}0m "
	[[ $("$TOPLEAK" --types "$core") != *"$escape"* ]]
}
