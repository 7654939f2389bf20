#!/usr/bin/env bash
# A small study prints its table and its JSON, and draws its page.
set -euo pipefail

study="${TEST_SRCDIR}/capstan/tests/benchmark/straggler/straggler_study"
page="${TEST_TMPDIR}/study.html"
output="$("${study}" --workers=2 --steps=10 --compute=2ms --pause=10ms --modes=bsp,ssp4,async \
  --repeat=1 --target_loss=100 --html="${page}" --json 2>/dev/null)"
echo "${output}"

expect() { grep --quiet --extended-regexp "$1" <<<"${output}" || { echo "expected: $1" && exit 1; }; }
for mode in bsp 'ssp 4' async; do
  [[ "$(grep --count --extended-regexp "^${mode} +[0-9]+ +[0-9.]+ % .* s +10\.0 +[0-9.]+ %$" \
    <<<"${output}")" == 4 ]] || { echo "expected 4 lines of ${mode}" && exit 1; }
done
expect '^\{"runs":\[\{"pattern":"none","mode":"bsp","steps_per_second":[0-9.]*[1-9]'
grep --quiet '"id":"loss_pauses"' "${page}"

# With more steps, every mode learns.
output="$("${study}" --workers=2 --steps=300 --compute=1ms --patterns=none --modes=bsp,ssp4,async \
  --repeat=1 --html="${page}" 2>/dev/null)"
echo "${output}"
for mode in bsp 'ssp 4' async; do expect "^${mode} .* ([89][0-9]|100)\.[0-9]+ %$"; done

if "${study}" --modes=ssp 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep 'expected bsp, async or ssp with its staleness, as in ssp4; got "ssp"' "${TEST_TMPDIR}/error"
