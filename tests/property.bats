#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# topleak against the slow counter, on random files and cores with random options.

load lib/common

@test "random files, cores and options: equal to the slow counter" {
	# A seed of an earlier run repeats its cases.
	export SEED=${SEED:-$((RANDOM << 15 | RANDOM))}
	echo "# SEED=$SEED" >&3
	cd "$BATS_TEST_TMPDIR"
	TOPLEAK=$TOPLEAK compare 240
}
