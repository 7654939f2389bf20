# shellcheck shell=bash
# Sourced by tests of scripts that measure in network namespaces, where the test may make them.

# shellcheck source=tests/skipped_case.sh
source "${TEST_SRCDIR}/capstan/tests/skipped_case.sh"

# expect_error TEXT COMMAND...: the command fails, and its error has the text.
expect_error() {
  local text="$1"
  shift
  if "$@" >"${TEST_TMPDIR}/output" 2>"${TEST_TMPDIR}/error"; then
    echo "expected an error: $*" && exit 1
  fi
  grep --quiet --fixed-strings -- "${text}" "${TEST_TMPDIR}/error" ||
    { echo "expected '${text}', got:" && cat "${TEST_TMPDIR}/error" && exit 1; }
}

# end_without_namespaces COMMAND: where this test may not make namespaces, the command must fail,
# and the test ends. Its report then has a skipped case.
end_without_namespaces() {
  local name="capstan-test-$$"
  ! { ip netns add "${name}" && ip netns delete "${name}"; } 2>/dev/null || return 0
  expect_error 'expected to be' "$1"
  end_with_skipped_case \
    "the benchmark itself: this is not root, or may not make network namespaces"
}

# The network namespaces that nobody can be using: the process in their name has ended.
left_namespaces() {
  local name pid
  while read -r name _; do
    pid="${name#capstan-}"
    pid="${pid%%-*}"
    [[ "${name}" != capstan-*-* || -e "/proc/${pid}" ]] || echo "${name}"
  done < <(ip netns list)
}

# expect_nothing_left BEFORE: since left_namespaces printed BEFORE, no namespace was left behind.
# Other tests may have theirs.
expect_nothing_left() {
  local left
  left="$(comm -13 <(sort <<<"$1") <(left_namespaces | sort))"
  [[ -z "${left}" ]] || { echo "left behind: ${left}" && exit 1; }
}
