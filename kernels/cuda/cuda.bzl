"""C++ with CUDA: compiled by nvcc with --config=cuda, else for the emulator."""

load("//third_party/cuda:nvcc_objects.bzl", "nvcc_objects")

_WITH_TOOLKIT = "//kernels/cuda:with_toolkit"
_EMULATOR = [
    "//tests/cuda_emulator",
    "//tests/cuda_emulator:runtime_header",
]

# A C++ compiler cannot tell a kernel's launch bounds to whom launches it. For the emulator, the
# kernel itself begins with a check of them. The lines stay where they are.
_CHECK_LAUNCH_BOUNDS = r"""
(echo '#line 1 "$(location {source})"' && sed --null-data --regexp-extended \
  's/__launch_bounds__([^;{{}}]*\))(\s+\w+\([^;{{}}]*\) \{{)/\2 capstan::emulator::CheckLaunchBounds\1;/g' \
  $(location {source})) > $@
"""

def _emulated_source(library, source):
    name = library + "_emulated/" + source
    native.genrule(
        name = name + "_source",
        srcs = [source],
        outs = [name],
        cmd = _CHECK_LAUNCH_BOUNDS.format(source = source),
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    return name

def cuda_library(name, srcs = [], hdrs = [], deps = [], visibility = None, testonly = False):
    """One label for both. Files .cu.cc hold kernels; .cc files only call the runtime or cuBLAS."""
    kernels = [src for src in srcs if src.endswith(".cu.cc")]
    native.cc_library(
        name = name + "_emulated",
        testonly = testonly,
        srcs = [src for src in srcs if src not in kernels] +
               [_emulated_source(name, kernel) for kernel in kernels],
        hdrs = hdrs,
        # `#pragma unroll` is for nvcc. clang tries it, and warns if it fails.
        copts = [
            "-Wno-pass-failed",
            "-Wno-unknown-pragmas",
        ],
        tags = ["manual"],
        visibility = visibility,
        deps = deps + _EMULATOR,
    )
    if kernels:
        nvcc_objects(
            name = name + "_nvcc",
            testonly = testonly,
            srcs = kernels,
            hdrs = hdrs,
            tags = ["manual"],
            visibility = ["//visibility:private"],
            deps = deps + ["@local_cuda//:runtime"],
        )
    native.cc_library(
        name = name + "_toolkit",
        testonly = testonly,
        srcs = [src for src in srcs if src not in kernels],
        hdrs = hdrs,
        # A program has one CUDA runtime with all its kernels. Shared libraries would each have a
        # runtime of their own.
        linkstatic = True,
        tags = ["manual"],
        visibility = visibility,
        deps = deps + ["@local_cuda//:runtime"] + ([":" + name + "_nvcc"] if kernels else []),
    )
    native.alias(
        name = name,
        testonly = testonly,
        actual = select({
            _WITH_TOOLKIT: name + "_toolkit",
            "//conditions:default": name + "_emulated",
        }),
        visibility = visibility,
    )

def cuda_test(name, srcs, deps = [], tags = [], **kwargs):
    """A test of both: runs on the emulator, and on a GPU where --config=cuda built it."""
    native.cc_test(
        name = name,
        srcs = srcs,
        tags = tags + ["cuda"],
        deps = deps,
        **kwargs
    )

def resource_usage_test(name, libraries):
    """Checks what the kernels of these libraries use, where nvcc compiles them."""
    native.filegroup(
        name = name + "_files",
        testonly = True,
        srcs = [library + "_nvcc" for library in libraries],
        output_group = "resource_usage",
        tags = ["manual"],
    )
    files = select({
        _WITH_TOOLKIT: [name + "_files"],
        "//conditions:default": [],
    })
    native.sh_test(
        name = name,
        size = "small",
        srcs = [name + ".sh"],
        args = select({
            _WITH_TOOLKIT: ["$(rootpaths %s_files)" % name],
            "//conditions:default": [],
        }),
        data = ["resource_usage.py"] + native.glob(["*.cu.cc"]) + files,
    )

def emulated_cuda_test(name, srcs, deps = [], **kwargs):
    """A test that tells the emulator what to do; left out with --config=cuda."""
    native.cc_test(
        name = name,
        srcs = srcs,
        target_compatible_with = select({
            _WITH_TOOLKIT: ["//kernels/cuda:emulator_only"],
            "//conditions:default": [],
        }),
        deps = deps + _EMULATOR,
        **kwargs
    )
