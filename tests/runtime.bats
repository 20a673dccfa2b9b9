#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Objects of managed languages by class, against what their runtimes say themselves in the same run.

load lib/common

reader() {
	local path
	path=$(dirname "$TOPLEAK")/test-runtime
	[ -x "$path" ] || skip "make check builds it: $path"
	echo "$path"
}

# python_core PYTHON: the core of fixtures/objects.py; its truth is beside it
python_core() {
	local version
	version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	fixture "objects.python$version.core" dump -k @ sh -c "exec $1 '$repo/fixtures/objects.py' 60000 >@.truth"
}

# compare TRUTH GOT LEAST: the classes with so many objects have the counts of the truth within 0.5 %, and their bytes
# within 2 %; classes in $differ are not looked at
compare() {
	awk -F '\t' -v least="$3" -v differ=" ${differ-} " '
		FNR == NR { if (!/^#/) { count[$5] = $1; bytes[$5] = $2 } next }
		$1 >= least && index(differ, " " $3 " ") == 0 {
			seen++
			c = count[$3] - $1; b = bytes[$3] - $2
			if (c < 0) c = -c
			if (b < 0) b = -b
			if (c > 0.005 * $1 || b > 0.02 * $2) { print $3 ": " count[$3] + 0 " objects of " $1 ", " bytes[$3] + 0 " bytes of " $2; bad = 1 }
		}
		END { if (seen < 5) { print "only " seen + 0 " classes"; bad = 1 } exit bad }' "$2" "$1"
}

@test "python: counts and bytes of every class that its own tools say" {
	needs python3
	local core reader
	reader=$(reader)
	core=$(python_core /usr/bin/python3)
	"$reader" "$core" >"$BATS_TEST_TMPDIR/got"
	# What the interpreter says of instances without a dictionary leaves out their attributes; constants in code
	# are not all to be found from within.
	differ="__main__.Plain __main__.Ring __main__.Outer.Inner tuple"
	compare "$core.truth" "$BATS_TEST_TMPDIR/got" 1000
	# Those take their attributes: at least two words.
	awk -F '\t' '$5 == "__main__.Plain" && $1 == 60000 && $2 >= 60000 * (48 + 16) { found = 1 } END { exit !found }' \
		"$BATS_TEST_TMPDIR/got"
}

@test "python: the same classes in the table, and nothing of the interpreter" {
	needs python3 jq
	local core
	core=$(python_core /usr/bin/python3)
	topleak -0 --types -n 100000 -ojson "$core"
	is '[.types[] | select(.kind == "object" and (.module | startswith("python 3"))) | {(.name): .count}] | add |
		.["__main__.Order"] == 60000 and .["__main__.Session"] == 60000 and (has("__main__.Gone") | not)'
	is '[.types[] | select((.module | test("^(lib)?python3")) and .kind != "none")] | length == 0'
	is '.totals.named_bytes <= .totals.heap_bytes'
	topleak -0 --types -n 20 "$core"
	contains "$output" "__main__.Order"
}

@test "python: every version, of composed heaps" {
	local core=$BATS_TEST_TMPDIR/core reader minor
	reader=$(reader)
	for minor in 8 9 10 11 12 13 14; do
		mkpython "$core" "$minor" >"$core.truth"
		"$reader" "$core" >"$core.got" 2>/dev/null
		equal "$(awk -F '\t' '!/^#/ { print $1 "\t" $2 "\t" $5 }' "$core.got" | sort)" "$(sort "$core.truth")"
		contains "$(head -n 1 "$core.got")" "python 3.$minor:"
	done
}

@test "python: a version that is not known is said, and its types are not guessed" {
	local core=$BATS_TEST_TMPDIR/core
	mkpython "$core" 13 >/dev/null
	perl -pi -e 's/python3\.13/python3.99/g' "$core"
	topleak -0 --types "$core"
	contains "$stderr" "the objects of python 3.99 are not known: this version is not known yet"
	contains "$output" "this version is not known yet"
	lacks "$output" "Order"
}

@test "python: what grew" {
	local old=$BATS_TEST_TMPDIR/old new=$BATS_TEST_TMPDIR/new
	mkpython "$old" 11 >/dev/null
	mkpython "$new" 12 >/dev/null
	perl -pi -e 's/python3\.12/python3.11/g' "$new" # another version's heap is not taken for this one's
	topleak -0 --types --diff "$old" "$new"
	contains "$output" "python 3.11"
}

@test "damaged heaps do no harm" {
	local reader minor core=$BATS_TEST_TMPDIR/core
	reader=$(reader)
	for minor in 8 11 12 14; do
		mkpython "$core" "$minor" >/dev/null
		limited "$reader" -s "${SEED:-$RANDOM}" -r 150 "$core"
	done
}

# java_core NAME OPTION...: of fixtures/Objects.java; CORE.truth is jcmd's histogram, by its columns
java_core() {
	needs java javac jcmd
	local classes=$fixtures/java
	mkdir -p "$classes"
	fixture java/Objects.class javac -d "$classes" "$repo/fixtures/Objects.java" >/dev/null
	fixture "objects.$1.core" java_dump @ "$classes" "${@:2}"
}

java_dump() (
	ulimit -c unlimited
	cd "$(mktemp -d -p "$BATS_TEST_TMPDIR")"
	mkfifo stop
	java -Xmx512m "${@:3}" -cp "$2" Objects 50000 <stop >out &
	exec 9>stop
	await grep -q ready out
	jcmd $! GC.class_histogram | awk '$1 ~ /^[0-9]+:$/ { print $2 "\t" $3 "\t" $4 }' >"$1.truth"
	kill -ABRT $!
	wait $! || true
	mv core* "$1"
)

java_right() {
	local core reader
	reader=$(reader)
	core=$(java_core "$@")
	"$reader" "$core" >"$BATS_TEST_TMPDIR/got"
	# What a collector left is counted, too, as by jmap -histo without :live; fillers are of these classes.
	differ="[I [Ljava.lang.Object; Objects\$Gone"
	compare "$core.truth" "$BATS_TEST_TMPDIR/got" 2000
	rm -f "$core"
}

@test "java: the histogram of jcmd, with each collector" {
	java_right serial -XX:+UseSerialGC
	java_right parallel -XX:+UseParallelGC
	java_right g1 -XX:+UseG1GC
}

@test "java: without compressed pointers" {
	java_right wide -XX:-UseCompressedOops -XX:-UseCompressedClassPointers
}

@test "java: nothing of what the virtual machine compiles with" {
	needs jq
	local core
	core=$(java_core table -XX:+UseSerialGC)
	topleak -0 --types -n 100000 -ojson "$core"
	is '[.types[] | select(.module == "libjvm.so" and .kind != "none")] | length <= 1'
	is '[.types[] | select(.name == "Objects$Order" and (.module | startswith("java ")) and .count == 50000)] | length == 1'
	rm -f "$core"
}

# node_core: of fixtures/objects.js; CORE.truth is what is in its snapshot
node_core() {
	needs node
	fixture objects.node.core node_dump @
}

node_dump() {
	dump -k "$1" node --expose-gc "$repo/fixtures/objects.js" 40000 "$1.heapsnapshot"
	snapshot.js "$1.heapsnapshot" >"$1.truth"
	rm -f "$1.heapsnapshot"
}

@test "v8: what its own snapshot of the heap says" {
	local core reader
	reader=$(reader)
	core=$(node_core)
	"$reader" "$core" >"$BATS_TEST_TMPDIR/got"
	# A few thousand of these are node's own, and not all in the snapshot.
	differ="Object symbol function_(anonymous)"
	compare <(sed 's/function (anonymous)/function_(anonymous)/' "$core.truth" | grep -v 'system / ') "$BATS_TEST_TMPDIR/got" 3900
}

@test "v8: the same classes in the table, and node's own C++ classes beside them" {
	needs jq
	local core
	core=$(node_core)
	topleak -0 --types -n 100000 -ojson "$core"
	is '[.types[] | select(.kind == "object" and (.module | startswith("v8 "))) | {(.name): .count}] | add |
		(.["Derived"] - 20000 | fabs) < 100 and (.["Late"] - 4000 | fabs) < 20 and .["function named"] == 40000'
	is '[.types[] | select(.kind == "class" and .module == "node")] | length > 10'
	is '.totals.named_bytes <= .totals.heap_bytes'
}

# go_core: of fixtures/objects.go, stripped; CORE.truth is what the Go runtime says
go_core() {
	needs go
	local program
	program=$(HOME=${HOME:-/root} fixture objects.go.program go build -trimpath -ldflags "-s -w" -o @ "$repo/fixtures/objects.go")
	fixture objects.go.core dump -k @ sh -c "exec '$program' 50000 >@.truth"
}

@test "go: what its runtime says of allocations, by type, in a stripped program" {
	local core reader
	reader=$(reader)
	core=$(go_core)
	"$reader" "$core" >"$BATS_TEST_TMPDIR/got"
	# Keys of maps are strings, too, and made elsewhere.
	differ="string (all) [200]int64"
	compare "$core.truth" "$BATS_TEST_TMPDIR/got" 40
	awk -F '\t' 'FNR == NR { if ($5 != "" && !/stacks of/) { count += $1; bytes += $2 } next }
		$3 == "(all)" { c = count - $1; b = bytes - $2; exit c * c > 1e-6 * $1 * $1 || b * b > 1e-6 * $2 * $2 }' \
		"$BATS_TEST_TMPDIR/got" "$core.truth"
}

@test "go: the same types in the table, and nothing of the program's own data" {
	needs jq
	local core
	core=$(go_core)
	topleak -0 --types -n 100000 -ojson "$core"
	is '[.types[] | select(.kind == "object" and (.module | startswith("go 1."))) | {(.name): .count}] | add |
		.["main.Order"] == 50000 and .["main.Circle"] == 25000 and .["[]main.Item"] == 50000'
	is '[.types[] | select(.kind != "object" and .module == "objects.go.program")] | length == 0'
}

@test "a dump without such a runtime has no row of one" {
	needs jq
	topleak -0 --types -n 100000 -ojson "$(leak_core)"
	is '[.types[] | select(.kind == "object")] | length == 0'
}
