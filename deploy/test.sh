#!/usr/bin/env bash
# Builds everything and runs the tests. The last line is "N passed, N failed, N skipped", in test
# cases. A case is skipped when this machine does not allow it; some need root.
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

# Prints the number of passed, of failed and of skipped cases in the given test.xml files.
count_cases() {
  awk '
    /^ +<testcase / { cases++; is_failed = 0 }
    /<skipped/ { skipped++ }
    /<(failure|error) / && !is_failed { failed++; is_failed = 1 }
    END { print cases - skipped - failed, failed + 0, skipped + 0 }
  ' "$@"
}

# Prints a line for each case that failed, with the beginning of its message.
print_failures() {
  awk -v target="$1" '
    function value(attribute) {
      return match($0, attribute "=\"[^\"]*") ? substr($0, RSTART + length(attribute) + 2,
        RLENGTH - length(attribute) - 2) : ""
    }
    /^ +<testcase / { name = value(" name"); suite = value("classname"); is_failed = 0 }
    /<(failure|error) / && !is_failed {
      is_failed = 1
      print "FAILED  " target " " suite "." name ": " substr(value(" message"), 1, 300)
    }
  ' "${@:2}"
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
  # Each target counts at least once, with Bazel's verdict.
  if [[ "${summary}" =~ \"overallStatus\":\"(PASSED|FLAKY)\" ]]; then
    [[ ${cases[0]} -gt 0 ]] || cases[0]=1
  else
    if [[ ${cases[1]} -gt 0 ]]; then
      print_failures "${label}" "${xml_files[@]}"
    else
      echo "FAILED  ${label}"
      cases[1]=1
    fi
  fi
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
[[ ${failed} -eq 0 && ${passed} -gt 0 ]] && result=0 || result=1
echo "${passed} passed, ${failed} failed, ${skipped} skipped"
exit "${result}"
