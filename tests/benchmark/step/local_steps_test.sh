#!/usr/bin/env bash
# The benchmark trains in each way, and says how they compare.
set -euo pipefail

# shellcheck source=tests/python/package.sh
source tests/python/package.sh
small=(--workers=2 --rounds=2 --seeds=1 --text=README.md --batch=2 --json)

# expect_figures FLAGS...: of the benchmark.
expect_figures() {
  python tests/benchmark/step/local_steps.py "${small[@]}" "$@" | tee "${TEST_TMPDIR}/output"
  python - "${TEST_TMPDIR}/output" <<'EOF'
import json
import sys

figures = json.loads(open(sys.argv[1]).read())
for name in ("loss", "bsp_loss", "bytes_ratio", "stall_s", "stall_share", "round_s"):
    assert figures[name] > 0, (name, figures)
assert figures["parameters"] > 200_000, figures
# int8, and the values at the start once.
assert figures["bytes_ratio"] > figures["sync_every"], figures
EOF
}

expect_figures --sync_every=10 --peer
grep --quiet '"diloco_loss": [0-9]' "${TEST_TMPDIR}/output"
# The next number that three divide.
expect_figures --sync_every=7 --fragments=3 --fragment_sync_delay=1
grep --quiet '"sync_every": 9' "${TEST_TMPDIR}/output"
