"""A mutant: a program, linked with sources that have one fault on purpose."""

# The simulation, compiled once for all mutants.
_SIMULATION = [
    "//common/base:mutex",
    "//common/base:program",
    "//common/base:status_macros",
    "//tests/simulation:coordinator_loss_scenario",
    "//tests/simulation:run_scenario",
    "//tests/simulation:scenario",
    "//tests/simulation/mutants:simulation_main",
    "//third_party:absl",
    "//third_party:glog",
]

def mutant(name, sources, libs, srcs = [], deps = _SIMULATION):
    """Builds the program `name` from the fault in `name`.patch.

    Args:
      name: of the program, and of the patch.
      sources: labels of the source files that the patch changes.
      libs: labels of the libraries with these sources. Their own objects are not linked, because
        the mutated ones define the same symbols and come first.
      srcs: the program's own sources, if they are in none of `deps`.
      deps: libraries of the program and of the mutated sources. The default is the simulation.
    """
    mutated = [name + "_" + source.split(":")[1] for source in sources]
    copies = ["cp --parents -L $(location %s) $$copy" % source for source in sources]
    results = [
        "cp $$copy/$(location %s) $(location %s)" % (source, result)
        for source, result in zip(sources, mutated)
    ]

    # A patch that no longer fits its sources fails the build.
    native.genrule(
        name = name + "_source",
        testonly = True,
        srcs = sources + [name + ".patch"],
        outs = mutated,
        tags = ["no_sanitizer"],
        cmd = " && ".join(
            ["copy=$$(mktemp -d)"] + copies + ["chmod -R u+w $$copy"] +
            ["patch --silent --fuzz=0 -p1 -d $$copy < $(location %s.patch)" % name] + results,
        ),
    )
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = mutated + srcs,
        # The mutated sources may include all headers of their own libraries.
        features = ["-layering_check"],
        linkopts = ["-lpthread"],
        tags = ["no_sanitizer"],
        deps = libs + deps,
    )
