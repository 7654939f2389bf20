"""Libraries with their tests, and one test program of a package.

A test source is compiled by itself for its own test, such as //common/routing:key_shard_test. That
test is made when it is named. //... has the package's tests instead: all its test sources, compiled
as one. Most of the time that a test source takes is its headers.
"""

_IN_PACKAGE_TESTS = "in_package_tests"

def test(name, srcs, deps, size = None, data = [], tags = []):
    """A cc_test that is run on its own when it is named, and by package_tests() otherwise.

    It takes no other attributes: package_tests() would lose them.
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs,
        data = data,
        tags = tags + ["manual", _IN_PACKAGE_TESTS],
        deps = deps,
    )

def library(
        name,
        srcs = None,
        hdrs = None,
        deps = [],
        test_srcs = [],
        test_deps = [],
        test_size = None,
        test_tags = [],
        test_data = [],
        tags = [],
        **kwargs):
    """A library of NAME.h and NAME.cc, and its test NAME_test of NAME_test.cc.

    Args:
      name: of the library.
      srcs: other sources than NAME.cc; empty for a library that is a header alone.
      hdrs: other headers than NAME.h.
      deps: of both the library and its test.
      test_srcs: other sources of the test than NAME_test.cc.
      test_deps: of the test alone, beside GoogleTest.
      test_size: of the test, as cc_test's.
      test_tags: of the test alone.
      test_data: of the test alone.
      tags: of both, because a test needs what its library needs.
      **kwargs: of the library alone.
    """
    native.cc_library(
        name = name,
        srcs = [name + ".cc"] if srcs == None else srcs,
        hdrs = [name + ".h"] if hdrs == None else hdrs,
        deps = deps,
        tags = tags,
        **kwargs
    )
    test(
        name = name + "_test",
        size = test_size,
        srcs = [name + "_test.cc"] + test_srcs,
        data = test_data,
        tags = tags + [tag for tag in test_tags if tag not in tags],
        deps = [":" + name, "//third_party:googletest_main"] +
               [dep for dep in deps if dep != "//third_party:googletest_main"] +
               [dep for dep in test_deps if dep not in deps],
    )

_SIZES = ["small", "medium", "large", "enormous"]

def _union(tests, attribute):
    return sorted({label: None for test in tests for label in test[attribute]}.keys())

def _one_source(name, srcs):
    """A source with all `srcs`, each in a namespace of its own: they may define the same names."""
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = srcs,
        outs = [name + "_test.cc"],
        cmd = """for file in $(SRCS); do
          echo "#line 1 \\"$$file\\""
          sed "s/^namespace capstan {$$/namespace capstan::$$(basename $$file .cc) {/" $$file
        done >$@""",
        tags = ["manual"],
    )
    return name + "_test.cc"

def package_tests():
    """The last line of a package: a test of all its tests with the same tags, such as grpc_tests."""
    groups = {}
    for rule in native.existing_rules().values():
        if _IN_PACKAGE_TESTS in rule["tags"]:
            tags = [tag for tag in rule["tags"] if tag not in ["manual", _IN_PACKAGE_TESTS]]
            groups.setdefault("_".join(sorted(tags) + ["tests"]), (tags, []))[1].append(rule)
    for name, (tags, tests) in groups.items():
        srcs = _union(tests, "srcs")
        sources = [src for src in srcs if src.endswith("_test.cc")]
        native.cc_test(
            name = name,
            size = _SIZES[max([_SIZES.index(test["size"]) for test in tests])],
            srcs = [src for src in srcs if src not in sources] +
                   (sources if len(sources) == 1 else [_one_source(name, sources)]),
            data = _union(tests, "data"),
            tags = tags,
            deps = _union(tests, "deps"),
        )
