"""C++ code from .proto files, with the protoc and the gRPC plugin of the system."""

def cc_proto(name, src, deps = [], visibility = None):
    """Messages of one .proto file. Its imports from this package go to `deps`."""
    base = src[:-len(".proto")]
    native.genrule(
        name = name + "_generate",
        srcs = [src] + [dep + "_src" for dep in deps],
        outs = [base + ".pb.h", base + ".pb.cc"],
        cmd = "protoc -I. --cpp_out=$(GENDIR) $(location %s)" % src,
    )
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [dep + "_src" for dep in deps],
        visibility = visibility,
    )
    native.cc_library(
        name = name,
        srcs = [base + ".pb.cc"],
        hdrs = [base + ".pb.h"],
        copts = ["-w"],
        visibility = visibility,
        deps = deps + ["//third_party:protobuf"],
    )

def cc_grpc(name, src, proto, visibility = None):
    """Service stubs of one .proto file. Its messages are the cc_proto `proto`."""
    base = src[:-len(".proto")]
    native.genrule(
        name = name + "_generate",
        srcs = [proto + "_src"],
        outs = [base + ".grpc.pb.h", base + ".grpc.pb.cc"],
        cmd = ("protoc -I. --plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) " +
               "--grpc_out=$(GENDIR) " + native.package_name() + "/" + src),
    )
    native.cc_library(
        name = name,
        srcs = [base + ".grpc.pb.cc"],
        hdrs = [base + ".grpc.pb.h"],
        copts = ["-w"],
        tags = ["grpc"],
        visibility = visibility,
        deps = [
            proto,
            "//third_party:grpc",
        ],
    )
