"""Fuzzers, each with its corpus."""

def fuzzer(name, deps):
    """Declares a fuzzer and a test that runs it.

    With --config=asan it is libFuzzer's, and runs for 3 seconds; else it runs on its corpus alone.

    Args:
      name: of its source, NAME.cc, and of the folder of its inputs, corpus/NAME.
      deps: what it fuzzes.
    """
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + ".cc"],
        linkopts = select({
            ":has_libfuzzer": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + [":fuzz_input"] + select({
            ":has_libfuzzer": [],
            "//conditions:default": [":corpus_main"],
        }),
    )
    native.sh_test(
        name = name + "_test",
        size = "small",
        srcs = ["fuzz.sh"],
        args = [
            "$(rootpath :%s)" % name,
            "tests/fuzz/corpus/" + name,
        ],
        data = [":" + name] + native.glob(["corpus/%s/*" % name]),
    )
