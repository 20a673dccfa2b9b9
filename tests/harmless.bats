#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Whatever a dump says, topleak only reads: it opens nothing for writing, talks to nobody, runs no
# program, and opens nothing that a dump names but regular files.

load lib/common

setup() {
	needs strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	core=$BATS_TEST_TMPDIR/core
	trace=$BATS_TEST_TMPDIR/trace
}

# never PATTERN [EXCEPT]: no system call of the trace is like PATTERN, unless it is like EXCEPT, too
never() {
	local found
	found=$(grep -E "^[0-9]+ +$1" "$trace" | grep -vE "${2-^$}") || return 0
	echo "$found"
	false
}

# harmless ARG...: its system calls are those of a program that reads
harmless() {
	LSAN_OPTIONS=detect_leaks=0 strace -f -o "$trace" "$TOPLEAK" "$@" >/dev/null 2>"$trace.err" || [ $? -eq 1 ]
	never '(open|openat|openat2)\(.*O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)'
	never '(creat|unlink|rename|link|symlink|mkdir|rmdir|mknod|truncate|ftruncate|fallocate|chmod|chown|fchown|utime|setxattr|mount)[a-z0-9]*\('
	never '(socket|connect|bind|listen|accept|sendto|sendmsg|recvfrom|recvmsg)[a-z0-9]*\('
	never '(fork|vfork|kill|process_vm_writev|setuid|setgid)\('
	never 'ptrace\(' "${may_trace-^$}"
	never 'clone3?\(' CLONE_THREAD
	never 'exec' "exec[a-z]*\(\"$TOPLEAK\""
	# It writes to stdout and stderr only.
	never 'p?write[v64]*\(' 'write\([12],'
	# Nothing is mapped so that it could be written to a file.
	never 'mmap\(.*PROT_WRITE.*MAP_SHARED' MAP_ANONYMOUS
}

# note_file PATH...: an NT_FILE note that maps them at 0x400000, 0x500000, ...
note_file() {
	local i=0 ranges='' paths='' path
	for path; do
		ranges+="0x400000 + $((i * 0x100000)), 0x401000 + $((i * 0x100000)), 0, "
		paths+="'$path' . chr(0) . "
		i=$((i + 1))
	done
	echo "{ name => 'CORE', type => 0x46494c45, desc => pack('Q<*', $#, 4096, $ranges) . $paths '' }"
}

@test "a sound core, in every format, its program and a compressed copy" {
	local program format
	program=$(leak)
	mkcore "$core" "pid => 1, signal => 6, command => '$program', notes => [$(note_file "$program")],
		segments => [{ vaddr => 0x400000, words => [(0x400010) x 9] }]"
	for format in text json csv gdb; do
		harmless -v -o "$format" -x "$program" "$core"
	done
	grep -q "openat.*$program" "$trace"
	harmless "$program" "$core"
	harmless --raw "$core"
	zstd -q "$core"
	harmless "$core.zst"
}

@test "a live process: --leaks stops its threads to take their registers, and does nothing else to them" {
	local program=$BATS_TEST_TMPDIR/registers pid question
	cc -O1 -pthread -o "$program" "$repo/fixtures/registers.c"
	"$program" hold >"$BATS_TEST_TMPDIR/out" 3>&- &
	pid=$!
	await grep -q ready "$BATS_TEST_TMPDIR/out"
	harmless --types --pid "$pid"
	may_trace='ptrace\(PTRACE_(SEIZE|INTERRUPT|GETREGSET|DETACH), '
	for question in --leaks "--path 0x1000" "--type hold --owners"; do
		# shellcheck disable=SC2086 # an option and its argument
		harmless $question --pid "$pid"
		grep -q PTRACE_DETACH "$trace"
		# No options, and no signal.
		never 'ptrace\(PTRACE_(SEIZE|DETACH), [0-9]+, NULL, [^0]'
	done
	kill "$pid"
	wait "$pid" || true
}

@test "a dump that names devices, FIFOs, sockets, folders and files beside itself: only regular files are opened" {
	local fifo=$BATS_TEST_TMPDIR/fifo link=$BATS_TEST_TMPDIR/link up=$BATS_TEST_TMPDIR/../../../../../../../../dev/tty
	mkfifo "$fifo"
	ln -s /dev/zero "$link"
	mkcore "$core" "pid => 1, signal => 6, command => '$fifo', notes => [$(note_file "$fifo" "$link" /dev/zero \
		/dev/random /dev/tty /dev/stdin /dev/fd/0 /proc/self/mem /proc/kmsg /proc/self/fd/0 "$BATS_TEST_TMPDIR" \
		"$up" '/dev/shm' '//dev/null' 'http://localhost/x' '|id' '\$(id)' '\`id\`' '~/x' '-o' 'file:///etc/passwd')],
		segments => [map { { vaddr => 0x400000 + \$_ * 0x100000, words => [(0x400010 + \$_ * 0x100000) x 9] } } 0 .. 21]"
	harmless -v "$core" </dev/null
	# A FIFO would have hung. What was opened besides the libraries and the dump is regular files.
	local opened
	while read -r opened; do
		[ -f "$opened" ] || { echo "opened: $opened" && false; }
	done < <(sed -nE 's/^[0-9]+ +open(at)?\(([A-Z_]+, )?"([^"]*)".* = [0-9]+$/\3/p' "$trace" | grep -v '^/proc/self/maps')
}

@test "hostile cores, each kind" {
	local segments
	for segments in "{ vaddr => 0, offset => 64, filesz => 1 << 63, memsz => 1 << 63 }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3', 5, 0xffffffff, 1) . 'CORE' }" \
		"{ type => 3, vaddr => 0x1000, bytes => '/bin/sh' }, { vaddr => 0x1000, words => [1] }"; do
		mkcore "$core" "pid => 1, signal => 6, command => '/bin/sh', segments => [$segments]"
		harmless -v "$core"
	done
	head -c 4096 /dev/urandom >"$core"
	harmless "$core"
}

@test "no network without --debuginfod, even if the environment has servers" {
	local program
	program=$(leak)
	mkcore "$core" "pid => 1, signal => 6, command => '$program', notes => [$(note_file "$program" /usr/lib/none.so)],
		segments => [{ vaddr => 0x400000, words => [(0x400010) x 9] }]"
	DEBUGINFOD_URLS=http://127.0.0.1:9 harmless -v "$core"
}
