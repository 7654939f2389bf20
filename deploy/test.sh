#!/usr/bin/env bash
# Builds everything and runs the tests. The last line is "N passed, N failed, N skipped", in test
# cases. A case is skipped when this machine does not allow it; some need root. Each has a line with
# the reason.
# Usage: deploy/test.sh [TARGETS] [-- BAZEL ARGUMENTS]; TARGETS is //... unless given.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "${repository}"
deploy/setup.sh

targets=()
while [[ $# -gt 0 && "$1" != -- ]]; do
  targets+=("$1")
  shift
done
[[ $# -eq 0 ]] || shift
[[ ${#targets[@]} -gt 0 ]] || targets=(//...)

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
events="${scratch}/events.json"

bazel_exit=0
bazel test --keep_going --noshow_loading_progress --build_event_json_file="${events}" "$@" -- \
  "${targets[@]}" || bazel_exit=$?

# Prints the number of passed, of failed and of skipped cases in the given test.xml files. GoogleTest's
# disabled cases are not run: they are skipped.
count_cases() {
  awk '
    /^ +<testcase / { cases++; is_failed = 0 }
    /<skipped/ || /^ +<testcase .* status="notrun"/ { skipped++ }
    /<(failure|error) / && !is_failed { failed++; is_failed = 1 }
    END { print cases - skipped - failed, failed + 0, skipped + 0 }
  ' "$@"
}

# print_cases WORD ELEMENTS TARGET FILE...: a line that begins with the word for each case with one of
# these elements, with the beginning of its message.
print_cases() {
  awk -v word="$1" -v elements="$2" -v target="$3" '
    function value(attribute) {
      return match($0, attribute "=\"[^\"]*") ? substr($0, RSTART + length(attribute) + 2,
        RLENGTH - length(attribute) - 2) : ""
    }
    /^ +<testcase / { name = value(" name"); suite = value("classname"); is_printed = 0 }
    $0 ~ elements && !is_printed {
      is_printed = 1
      print word " " target " " (suite == "" ? "" : suite ".") name ": " substr(value(" message"), 1, 300)
    }
  ' "${@:4}"
}

# Adds a target's cases to `passed`, `failed` and `skipped`, given its line of the event file.
passed=0
failed=0
skipped=0
count_target() {
  local label="$1" summary="$2" xml_files=() cases=(0 0 0) log
  while read -r log; do
    [[ -f "${log%test.log}test.xml" ]] && xml_files+=("${log%test.log}test.xml")
  done < <(grep --only-matching 'file://[^"]*test\.log' <<<"${summary}" | sed 's|^file://||')
  [[ ${#xml_files[@]} -eq 0 ]] || read -r -a cases < <(count_cases "${xml_files[@]}")
  # Each target counts at least once, with Bazel's verdict, or as skipped.
  if [[ "${summary}" =~ \"overallStatus\":\"(PASSED|FLAKY)\" ]]; then
    ((cases[0] + cases[2] > 0)) || cases[0]=1
  elif ((cases[1] > 0)); then
    print_cases "FAILED " "<(failure|error) " "${label}" "${xml_files[@]}"
  else
    echo "FAILED  ${label}"
    cases[1]=1
  fi
  ((cases[2] == 0)) ||
    print_cases skipped '<skipped|^ +<testcase .* status="notrun"' "${label}" "${xml_files[@]}"
  passed=$((passed + cases[0]))
  failed=$((failed + cases[1]))
  skipped=$((skipped + cases[2]))
}

all="tests(set(${targets[*]}))"
while read -r label; do
  summary="$(grep --fixed-strings "{\"id\":{\"testSummary\":{\"label\":\"${label}\"" "${events}" |
    tail -n 1 || true)"
  if [[ -n "${summary}" ]]; then
    count_target "${label}" "${summary}"
  else
    echo "FAILED  ${label} was not run"
    failed=$((failed + 1))
  fi
done < <(bazel query --keep_going --ui_event_filters=-info --noshow_progress \
  "${all} except attr(tags, '\\bmanual\\b', ${all})" 2>/dev/null)

if [[ ${bazel_exit} -ne 0 && ${failed} -eq 0 ]]; then
  echo "bazel failed (exit code ${bazel_exit}) outside of the tests; see above"
  failed=1
fi
((failed == 0 && passed + skipped > 0)) && result=0 || result=1
echo "${passed} passed, ${failed} failed, ${skipped} skipped"
exit "${result}"
