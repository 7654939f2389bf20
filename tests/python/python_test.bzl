"""Tests in Python, with the package capstan as the wheel lays it out."""

# What the package consists of, for package.sh.
PACKAGE = [
    "//deploy/cli:capstan",
    "//server:capstan_coordinator",
    "//server:capstan_server",
    "//worker/python:site",
]

def python_test(name, modules, size = "medium"):
    """Test modules of this folder, run one after the other by run_tests.py.

    Args:
      name: of the test.
      modules: their names.
      size: of the test, by the time that it may take.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["python_test.sh"],
        args = modules,
        data = PACKAGE + [
            ":modules",
            "package.sh",
            "//:README.md",
            "//deploy:guide/local-steps.md",
            "//worker/client_api:capstan.h",
            "//worker/python:README.md",
            "//worker/python:examples",
        ],
        tags = [
            "grpc",
            "no_sanitizer",
        ],
    )
