"""Libraries with their tests."""

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
    native.cc_test(
        name = name + "_test",
        size = test_size,
        srcs = [name + "_test.cc"] + test_srcs,
        data = test_data,
        tags = tags + [tag for tag in test_tags if tag not in tags],
        deps = [":" + name, "//third_party:googletest_main"] +
               [dep for dep in deps if dep != "//third_party:googletest_main"] +
               [dep for dep in test_deps if dep not in deps],
    )
