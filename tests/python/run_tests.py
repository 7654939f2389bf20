"""Runs test modules, and prints "N passed, N failed, N skipped" last.

Usage: run_tests.py MODULE...   With XML_OUTPUT_FILE, as Bazel sets it, each case is listed there.
"""

from __future__ import annotations

import os
import sys
import time
import unittest
from xml.sax.saxutils import quoteattr


class Result(unittest.TextTestResult):
    """Also keeps a line of XML for each case."""

    def startTestRun(self) -> None:
        self.lines: list[str] = []

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._began = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        seconds = time.monotonic() - self._began
        self.lines.append(f"  <testcase name={quoteattr(test.id())} time=\"{seconds:.3f}\">"
                          f"{self._outcome(test)}</testcase>")

    def _outcome(self, test: unittest.TestCase) -> str:
        # A subtest that failed knows its test.
        failures = [text for one, text in self.failures + self.errors
                    if getattr(one, "test_case", one) is test]
        if failures:
            return f"<failure message={quoteattr(failures[0])}></failure>"
        reasons = [reason for one, reason in self.skipped if one is test]
        return f"<skipped message={quoteattr(reasons[0])}></skipped>" if reasons else ""


def main(modules: list[str]) -> int:
    tests = unittest.defaultTestLoader.loadTestsFromNames(modules)
    result = unittest.TextTestRunner(sys.stdout, verbosity=2, resultclass=Result).run(tests)
    if "XML_OUTPUT_FILE" in os.environ:
        with open(os.environ["XML_OUTPUT_FILE"], "w", encoding="utf-8") as xml:
            xml.write("\n".join(["<testsuites><testsuite>", *result.lines,
                                 "</testsuite></testsuites>", ""]))
    failed = len(result.failures) + len(result.errors)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(f"{max(passed, 0)} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
