# Sourced by tests that run a part of what they test only where they may.

# say_not_run WHAT: the rest of this test is skipped, and counted as one case that is.
say_not_run() {
  echo "NOT RUN: $1"
  cat >"${XML_OUTPUT_FILE}" <<END
<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="${TEST_TARGET}" tests="2" failures="0" skipped="1">
    <testcase name="the rest" classname="${TEST_TARGET}"></testcase>
    <testcase name="what was not run" classname="${TEST_TARGET}">
      <skipped message="$1"></skipped>
    </testcase>
  </testsuite>
</testsuites>
END
}
