#!/usr/bin/env bash
# Runs a fuzzer from its corpus for some seconds. Without libFuzzer, runs it once on each file of the
# corpus. A failing input is printed, and kept in the outputs of the test.
# Usage: fuzz.sh FUZZER CORPUS [SECONDS [SEED]]
# It runs for 3 seconds unless given. The default seed is 1, so a failing test fails again.
set -euo pipefail

fuzzer="$1"
corpus="$2"
seconds="${3:-3}"
seed="${4:-1}"
scratch="${TEST_TMPDIR:-$(mktemp -d)}"
found="${scratch}/found"
mkdir "${found}"
options=(-seed="${seed}" -max_total_time="${seconds}" -max_len=4096 -timeout=60 -rss_limit_mb=1024
  -malloc_limit_mb=256 -print_final_stats=1
  -artifact_prefix="${TEST_UNDECLARED_OUTPUTS_DIR:-${scratch}}/")
"${fuzzer}" "${options[@]}" "${found}" "${corpus}"
