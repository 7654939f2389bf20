"""Compiles .cu.cc files with nvcc."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":cuda_toolkit.bzl", "CudaToolkitInfo")

# As .bazelrc has them for everything else.
_HOST_FLAGS = [
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-maybe-uninitialized",
    "-ffp-contract=off",
    "-fno-omit-frame-pointer",
    "-fPIC",
]

# No fused multiply-add unless the code asks for it: the bits of the CPU.
_NVCC_FLAGS = [
    "-x",
    "cu",
    "-std=c++17",
    "-O3",
    "-fmad=false",
    "-Werror",
    "all-warnings",
    "-Xptxas",
    "-v",
    "-Xcompiler",
    ",".join(_HOST_FLAGS),
]

def _include_flags(context):
    flags = []
    for folder in context.quote_includes.to_list() + context.includes.to_list():
        flags += ["-I", folder]
    for folder in context.system_includes.to_list():
        flags += ["-isystem", folder]
    return flags

# With --define=cuda_architectures=75,90 only these, else all that the toolkit has of ours.
def _architectures(ctx, toolkit):
    wanted = ctx.var.get("cuda_architectures")
    if not wanted:
        return toolkit.architectures
    prefixes = ["arch=compute_%s," % name for name in wanted.split(",")]
    for prefix in prefixes:
        if not [flag for flag in toolkit.architectures if flag.startswith(prefix)]:
            fail("--define=cuda_architectures=%s: expected some of %s" %
                 (wanted, ", ".join(toolkit.architectures)))
    return [flag for flag in toolkit.architectures if flag.split("code=")[0] in prefixes]

# ptxas says on stderr what each kernel uses; lines with times are left out.
_COMMAND = """
usage="$1"
shift
"$@" 2> "${usage}.all" || { cat "${usage}.all" >&2; exit 1; }
grep -v "Compile time" "${usage}.all" > "${usage}" || true
"""

# Returns the object file, and a file with the registers, stack and shared memory of its kernels.
def _compile(ctx, source, context):
    toolkit = ctx.attr._toolkit[CudaToolkitInfo]
    place = "_nvcc/%s/%s" % (ctx.label.name, source.basename)
    object_file = ctx.actions.declare_file(place + ".o")
    usage = ctx.actions.declare_file(place + ".usage")
    arguments = ctx.actions.args()
    arguments.add(usage)
    arguments.add(toolkit.nvcc)
    arguments.add_all(_NVCC_FLAGS)
    arguments.add_all(_architectures(ctx, toolkit), before_each = "-gencode")
    arguments.add_all(_include_flags(context))
    arguments.add_all(context.defines, format_each = "-D%s")
    arguments.add_all(["-c", source, "-o", object_file])
    ctx.actions.run_shell(
        command = _COMMAND,
        arguments = [arguments],
        inputs = depset([source, toolkit.version_file], transitive = [context.headers]),
        outputs = [object_file, usage],
        mnemonic = "NvccCompile",
        progress_message = "Compiling %s with nvcc" % source.short_path,
        # nvcc finds the host's compiler in the PATH.
        use_default_shell_env = True,
    )
    return object_file, usage

def _nvcc_objects_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    dependencies = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    own = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path, ctx.genfiles_dir.path]),
    )
    context = cc_common.merge_cc_infos(
        cc_infos = [CcInfo(compilation_context = own), dependencies],
    ).compilation_context
    compiled = [_compile(ctx, source, context) for source in ctx.files.srcs]
    objects = depset([object_file for object_file, _ in compiled])
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        cc_toolchain = toolchain,
        feature_configuration = features,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = objects,
            pic_objects = objects,
        ),
        linking_contexts = [dependencies.linking_context],
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = objects),
        OutputGroupInfo(resource_usage = depset([usage for _, usage in compiled])),
        CcInfo(compilation_context = context, linking_context = linking_context),
    ]

nvcc_objects = rule(
    doc = "A library of kernels, always linked statically.",
    implementation = _nvcc_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_toolkit": attr.label(
            default = "@local_cuda//:toolkit",
            providers = [CudaToolkitInfo],
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
