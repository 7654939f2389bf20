"""The repository @local_cuda: the CUDA toolkit of this machine, or an error that there is none."""

_DEFAULT_HOME = "/usr/local/cuda"

# Turing (T4), Ampere (A100; A10, RTX 30), Hopper (H100, H200), Blackwell (B200; RTX 50). nvcc 13 no
# longer knows Volta (70); before 12.8 it does not know Blackwell.
_ARCHITECTURES = ["75", "80", "86", "90", "100", "120"]

_FOUND = """# The CUDA toolkit in {home}.
load("@capstan//third_party/cuda:cuda_toolkit.bzl", "cuda_toolkit")

package(default_visibility = ["//visibility:public"])

cuda_toolkit(
    name = "toolkit",
    architectures = {architectures},
    nvcc = "{home}/bin/nvcc",
    version_file = "nvcc_version.txt",
)

# cudart, linked statically, and cuBLAS, which is dynamic: it is 500 MB.
cc_library(
    name = "runtime",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/nv/**",
    ]),
    includes = ["include"],
    linkopts = [
        "-L{libraries}",
        "-Wl,-rpath,{libraries}",
        "-lcublas",
        "-lcublasLt",
        "-lcudart_static",
        "-ldl",
        "-lrt",
        "-lpthread",
    ],
)
"""

_MISSING = """# There is no CUDA toolkit on this machine.
load("@capstan//third_party/cuda:cuda_toolkit.bzl", "missing_cuda")

package(default_visibility = ["//visibility:public"])

[missing_cuda(
    name = name,
    message = {message},
) for name in ["toolkit", "runtime"]]
"""

_NEEDED = ["bin/nvcc", "include/cuda_runtime.h", "include/cublas_v2.h"]

# Where the libraries are: NVIDIA's installers, then other packages of them.
_LIBRARY_FOLDERS = ["lib64", "lib", "targets/x86_64-linux/lib"]

def _library_folder(repository_ctx, home):
    for folder in _LIBRARY_FOLDERS:
        path = repository_ctx.path(home + "/" + folder)
        if (path.get_child("libcudart_static.a").exists and
            path.get_child("libcublas.so").exists):
            return str(path)
    return None

# Values of nvcc's flag -gencode: machine code for each of our architectures that this nvcc knows, and
# PTX for the newest of them. A driver compiles the PTX for GPUs that are newer still.
def _architectures(repository_ctx, home):
    known = repository_ctx.execute([home + "/bin/nvcc", "--list-gpu-code"])
    if known.return_code != 0:
        fail("%s/bin/nvcc --list-gpu-code failed: %s" % (home, known.stderr))
    codes = [name for name in _ARCHITECTURES if "sm_" + name in known.stdout.split("\n")]
    if not codes:
        fail("%s/bin/nvcc: expected one that knows sm_90, got one that knows %s" %
             (home, known.stdout))
    flags = ["arch=compute_%s,code=sm_%s" % (name, name) for name in codes]
    return flags + ["arch=compute_%s,code=compute_%s" % (codes[-1], codes[-1])]

def _local_cuda_impl(repository_ctx):
    home = repository_ctx.os.environ.get("CUDA_HOME", "") or _DEFAULT_HOME
    missing = [file for file in _NEEDED if not repository_ctx.path(home + "/" + file).exists]
    libraries = _library_folder(repository_ctx, home)
    if libraries == None:
        missing.append("libcudart_static.a and libcublas.so in one of " +
                       ", ".join(_LIBRARY_FOLDERS))
    if missing:
        message = ("--config=cuda: expected a CUDA toolkit (12 or 13) in {home}, but there is no " +
                   "{missing}; install it (https://developer.nvidia.com/cuda-downloads), or say " +
                   "where it is with --repo_env=CUDA_HOME=FOLDER, or build without --config=cuda " +
                   "for the CPU alone").format(home = home, missing = "; no ".join(missing))
        repository_ctx.file("BUILD", _MISSING.format(message = repr(message)))
        return
    repository_ctx.symlink(home + "/include", "include")
    version = repository_ctx.execute([home + "/bin/nvcc", "--version"])
    if version.return_code != 0:
        fail("%s/bin/nvcc --version failed: %s" % (home, version.stderr))
    repository_ctx.file("nvcc_version.txt", version.stdout)
    repository_ctx.file("BUILD", _FOUND.format(
        home = home,
        libraries = libraries,
        architectures = repr(_architectures(repository_ctx, home)),
    ))

# CUDA_HOME comes from --repo_env=CUDA_HOME=FOLDER or from the environment of `bazel`. After another
# toolkit was put in the same place: `bazel sync --configure`.
local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    configure = True,
    environ = ["CUDA_HOME"],
    local = True,
)
