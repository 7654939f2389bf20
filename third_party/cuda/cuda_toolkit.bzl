"""The CUDA toolkit of this machine, as the rules see it."""

CudaToolkitInfo = provider(
    doc = "An installed CUDA toolkit.",
    fields = {
        "architectures": "For what the compiler makes code, each as its flag -gencode has it.",
        "nvcc": "Absolute path of the compiler.",
        "version_file": "File with what `nvcc --version` printed: another version compiles anew.",
    },
)

def _cuda_toolkit_impl(ctx):
    return [CudaToolkitInfo(
        architectures = ctx.attr.architectures,
        nvcc = ctx.attr.nvcc,
        version_file = ctx.file.version_file,
    )]

cuda_toolkit = rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "architectures": attr.string_list(mandatory = True),
        "nvcc": attr.string(mandatory = True),
        "version_file": attr.label(mandatory = True, allow_single_file = True),
    },
)

def _missing_cuda_impl(ctx):
    fail(ctx.attr.message)

# Stands for the toolkit on a machine without CUDA. Fails only if something depends on it.
missing_cuda = rule(
    implementation = _missing_cuda_impl,
    attrs = {"message": attr.string(mandatory = True)},
)
