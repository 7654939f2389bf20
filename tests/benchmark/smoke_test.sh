#!/usr/bin/env bash
# Runs a benchmark program briefly. benchmark_program.bzl makes the arguments: the program, then any
# number of these cases:
#   run FLAGS REGULAR_EXPRESSION... end   the program succeeds, and each expression matches a line
#   refuse FLAGS TEXT end                 the program fails, and its error has the text
# The flags are one word, with spaces between them.
set -euo pipefail

program="$1"
output="${TEST_TMPDIR}/output"

# expect_run FLAGS REGULAR_EXPRESSION...
expect_run() {
  local flags pattern
  read -r -a flags <<<"$1"
  shift
  "${program}" "${flags[@]}" >"${output}" || { cat "${output}" && return 1; }
  cat "${output}"
  for pattern in "$@"; do
    grep --quiet --extended-regexp -e "${pattern}" "${output}" ||
      { echo "expected a line that matches: ${pattern}" && return 1; }
  done
}

# expect_refusal FLAGS TEXT
expect_refusal() {
  local flags
  read -r -a flags <<<"$1"
  if "${program}" "${flags[@]}" >"${output}" 2>&1; then
    echo "expected an error with the flags $1" && return 1
  fi
  grep --fixed-strings -e "$2" "${output}" ||
    { echo "expected the error '$2', got:" && cat "${output}" && return 1; }
}

shift
while (($# > 0)); do
  kind="$1"
  shift
  words=()
  while [[ "$1" != end ]]; do
    words+=("$1")
    shift
  done
  shift
  case "${kind}" in
    run) expect_run "${words[@]}" ;;
    refuse) expect_refusal "${words[@]}" ;;
    *) echo "expected run or refuse, got ${kind}" && exit 1 ;;
  esac
done
