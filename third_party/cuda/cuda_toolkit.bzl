"""What the rules know about the CUDA toolkit of this machine."""

CudaToolkitInfo = provider(
    doc = "An installed CUDA toolkit.",
    fields = {
        "nvcc": "Absolute path of the compiler.",
        "version_file": "File with what `nvcc --version` printed: another version compiles anew.",
    },
)

def _cuda_toolkit_impl(ctx):
    return [CudaToolkitInfo(nvcc = ctx.attr.nvcc, version_file = ctx.file.version_file)]

cuda_toolkit = rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "nvcc": attr.string(mandatory = True),
        "version_file": attr.label(mandatory = True, allow_single_file = True),
    },
)

def _missing_cuda_impl(ctx):
    fail(ctx.attr.message)

# Stands for whatever needs CUDA where there is none. Harmless until something depends on it.
missing_cuda = rule(
    implementation = _missing_cuda_impl,
    attrs = {"message": attr.string(mandatory = True)},
)
