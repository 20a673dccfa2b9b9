#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The completions, as the shells run them.

load lib/common

# Beside the program under test.
completions=$(dirname -- "$TOPLEAK")/completions

# complete_bash WORD...: what bash offers for the last word
complete_bash() {
	bash -c '
		. "$1"
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		compopt() { :; }
		_topleak
		printf "%s\n" "${COMPREPLY[@]}"
	' bash "$completions/topleak.bash" topleak "$@"
}

complete_fish() {
	fish --no-config -c 'source $argv[1]; complete -C $argv[2]' "$completions/topleak.fish" "$1" | cut -f 1
}

# complete_zsh LINE TEXT: what zsh shows after LINE and two tabs, until TEXT is in it
complete_zsh() {
	mkdir -p "$BATS_TEST_TMPDIR/functions"
	cp "$completions/topleak.zsh" "$BATS_TEST_TMPDIR/functions/_topleak"
	zsh -f -c '
		zmodload zsh/zpty
		zpty shell zsh -f -i
		zpty -w shell "PS1=ready; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; LISTMAX=0; stty cols 200"
		zpty -w shell "echo set\"\"up"
		while zpty -r shell text && [[ $text != *setup* ]]; do :; done
		zpty -w -n shell "$2"$'"'\t\t'"'
		shown=
		for ((tries = 0; tries < 600; tries++)); do
			while zpty -rt shell text; do shown+=$text; done
			[[ $shown != *$3* ]] || break
			sleep 0.1
		done
		print -r -- "$shown"
		zpty -d shell
	' zsh "$BATS_TEST_TMPDIR/functions" "$1" "$2"
}

@test "bash completes options, their words, lists of words, and process ids" {
	contains "$(complete_bash --de)" "--debug-dir"
	contains "$(complete_bash --de)" "--debuginfod"
	equal "$(complete_bash -o '' | xargs)" "text human json csv gdb folded pprof speedscope"
	equal "$(complete_bash --endian b)" "big"
	equal "$(complete_bash --kind text,he)" "text,heap"
	contains "$(complete_bash --pid "${$:0:1}")" "$$"
	cd "$BATS_TEST_TMPDIR"
	touch core.1
	equal "$(complete_bash co)" "core.1"
}

@test "fish completes options, their words and lists of words" {
	needs fish
	contains "$(complete_fish 'topleak --de')" "--debuginfod"
	equal "$(complete_fish 'topleak -o ' | sort | xargs)" "csv folded gdb human json pprof speedscope text"
	contains "$(complete_fish 'topleak --kind text,he')" "text,heap"
}

@test "zsh completes options and their words" {
	needs zsh
	contains "$(complete_zsh 'topleak --debugi' "--debuginfod")" "--debuginfod"
	contains "$(complete_zsh 'topleak --output j' "json")" "json"
	contains "$(complete_zsh 'topleak --endian ' "little")" "little"
}

@test "the completions know the options of --help, and no others" {
	local of_help
	of_help=$("$TOPLEAK" --help | grep -E '^ {2,6}-' | sed -E 's/^ +//; s/  .*//' | grep -oE -- '--[a-zA-Z-]+' | sort)
	equal "$(grep -oE -- '(\s|\||")--[a-zA-Z-]+' "$completions/topleak.bash" | grep -oE -- '--[a-zA-Z-]+' | sort -u)" \
		"$(sort -u <<<"$of_help")"
	equal "$(grep -oE -- "'--[a-zA-Z-]+" "$completions/topleak.zsh" | tr -d "'" | sort)" "$of_help"
	equal "$(grep -oE -- '-l [a-zA-Z-]+' "$completions/topleak.fish" | sed 's/-l /--/' | sort)" "$of_help"
}
