# SPDX-License-Identifier: MIT
# What all test files share. Loaded by each with `load lib/common`.
# shellcheck shell=bash disable=SC2154,SC2034 # bats sets output, stderr, ...; tests use cores, ...

bats_require_minimum_version 1.5.0

repo=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
lib=$repo/tests/lib
cores=$repo/../shared/cores
fixtures=$repo/build/fixtures
PATH=$lib:$repo/scripts:$PATH
export LC_ALL=C

TOPLEAK=$(realpath -m -- "${TOPLEAK:-$repo/build/topleak}")

writes_json() {
	! "$TOPLEAK" --version | grep -q "Built without .*jansson"
}

# topleak -STATUS ARG...: runs it, demands this exit status, and sets output, stderr and their lines
topleak() {
	[[ ${*:2} != *json* ]] || writes_json || skip "built without jansson"
	run --separate-stderr "$1" "$TOPLEAK" "${@:2}"
}

# fails TEXT...: the run before printed nothing but one line of error, which contains each TEXT
fails() {
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ ${stderr_lines[0]} == "topleak: "* ]]
	local text
	for text; do
		contains "$stderr" "$text"
	done
}

# contains STRING TEXT, lacks STRING TEXT: say what they looked at when they fail
contains() {
	[[ $1 == *"$2"* ]] || { printf 'no "%s" in:\n%s\n' "$2" "$1" && false; }
}
lacks() {
	[[ $1 != *"$2"* ]] || { printf '"%s" in:\n%s\n' "$2" "$1" && false; }
}

# equal GOT EXPECTED
equal() {
	[ "$1" = "$2" ] || { diff -u <(printf '%s\n' "$2") <(printf '%s\n' "$1") || false; }
}

# is FILTER: jq says that FILTER is true of the output; jq 1.6 is content with none
is() {
	[ -n "$output" ] && jq -e "$1" <<<"$output" >/dev/null || { printf 'not so: %s\n%s\n' "$1" "$output" && false; }
}

needs() {
	local command
	for command; do
		command -v "$command" >/dev/null || skip "no $command"
	done
}

# A sanitizer reserves terabytes of addresses and keeps freed memory.
sanitized() {
	grep -q '__[at]san_init' "$TOPLEAK"
}

# limited COMMAND...: runs it with a minute of processor time, or ten with a sanitizer, and kills what still hangs after
# ten times as long; a busy machine does not make a test fail
limited() {
	local seconds=60
	! sanitized || seconds=600
	(ulimit -t $seconds && exec timeout -s KILL ${seconds}0 "$@")
}

# await COMMAND...: waits until the command succeeds, ten minutes at most
await() {
	local tries
	for ((tries = 0; tries < 30000; tries++)); do
		! "$@" || return 0
		sleep 0.02
	done
	echo "waited in vain: $*" && false
}

# Conditions of a process: it has a handler for the signal; it has read so many bytes; all its threads, so many,
# wait for something.
catches() {
	local mask number
	number=$(kill -l "$2")
	mask=$(awk '/^SigCgt:/ { print $2 }' "/proc/$1/status")
	[ $((0x${mask:-0} >> (number - 1) & 1)) -eq 1 ]
}
has_read() {
	[ "$(awk '/^rchar:/ { print $2 }' "/proc/$1/io")" -ge "$2" ]
}
stands_still() {
	[ "$(cat "/proc/$1"/task/*/status | grep -c '^State:.S')" -eq "$2" ]
}

# as_other COMMAND...: runs it as a user who may not read everything
as_other() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
	else
		"$@"
	fi
}

# fixture NAME COMMAND...: the path of build/fixtures/NAME, which the command makes if it is not
# there, or older than the tests' own sources; @ in its words stands for the path
fixture() {
	local path=$fixtures/$1 lock status=0
	shift
	mkdir -p "$fixtures/locks"
	# Another test may want it at the same time.
	exec {lock}>"$fixtures/locks/${path##*/}"
	flock "$lock"
	if [ ! -e "$path" ] || [ -n "$(find "$repo/fixtures" "$repo/scripts/dump" -newer "$path")" ]; then
		"${@//@/$path}" >&2 3>&- {lock}>&- || status=$?
	fi
	exec {lock}>&-
	[ $status -ne 0 ] || echo "$path"
	return $status
}

# The leak fixture as an executable, and its core as the kernel and as gdb write it.
leak() {
	fixture leak "${CXX:-c++}" -o @ "$repo/fixtures/leak.cpp"
}
leak_core() {
	fixture leak.core dump @ "$(leak)"
}
