"""A benchmark program with its smoke test."""

def positive(key):
    """A regular expression for a figure of a JSON line that is above 0."""
    return '"%s":[0-9.e+-]*[1-9]' % key

def benchmark_program(
        name,
        deps,
        data = [],
        tags = [],
        smoke = {},
        refuses = {},
        test_tags = [],
        test_compatible_with = None):
    """NAME, a program of NAME_main.cc, and NAME_test, which runs it briefly.

    Args:
      name: of the program.
      deps: of the program.
      data: programs that it starts.
      tags: of the program and of the test.
      smoke: flags of a run -> extended regular expressions. The run succeeds, and each expression
        matches a line of its output.
      refuses: wrong flags -> a text. The run fails with the text in its error.
      test_tags: more tags of the test.
      test_compatible_with: where the test can run; everywhere without.
    """
    native.cc_binary(
        name = name,
        srcs = [name + "_main.cc"],
        data = data,
        tags = tags,
        deps = deps,
    )
    arguments = ["$(rootpath :%s)" % name]
    for flags, patterns in smoke.items():
        arguments += [_quote(word) for word in ["run", flags] + patterns + ["end"]]
    for flags, text in refuses.items():
        arguments += [_quote(word) for word in ["refuse", flags, text, "end"]]
    native.sh_test(
        name = name + "_test",
        size = "small",
        srcs = ["//tests/benchmark:smoke_test.sh"],
        args = arguments,
        data = [":" + name],
        tags = tags + test_tags,
        target_compatible_with = test_compatible_with,
    )

def _quote(word):
    return "'%s'" % word.replace("$", "$$")
