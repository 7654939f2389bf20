"""A mutant: a program, linked with one source that has a fault on purpose."""

_SIMULATION = [
    "//common/base:mutex",
    "//common/base:program",
    "//common/base:status_macros",
    "//tests/simulation:run_scenario",
    "//tests/simulation:scenario",
    "//third_party:absl",
    "//third_party:glog",
]

def mutant(name, source, lib, main = "//tests/simulation:simulation_main.cc", deps = _SIMULATION):
    """Builds the program `name` from the fault in `name`.patch.

    Args:
      name: of the program, and of the patch.
      source: label of the source file that the patch changes.
      lib: label of the library with that source. Its own object is not linked, because the mutated
        one defines the same symbols and comes first.
      main: label of the program's own source. The default is the simulation.
      deps: libraries of `main` and of the mutated source.
    """
    mutated = name + "_" + source.split(":")[1]

    # A patch that no longer fits its source fails the build.
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = [
            source,
            name + ".patch",
        ],
        outs = [mutated],
        tags = ["no_sanitizer"],
        cmd = "cp $(location %s) $@ && chmod u+w $@ && patch --silent --fuzz=0 $@ $(location %s)" %
              (source, name + ".patch"),
    )
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [
            mutated,
            main,
        ],
        # The mutated source may include all headers of its own library.
        features = ["-layering_check"],
        linkopts = ["-lpthread"],
        tags = ["no_sanitizer"],
        deps = [lib] + deps,
    )
