"""A mutant: a program, linked with sources that have one fault on purpose."""

_SIMULATION = [
    "//common/base:mutex",
    "//common/base:program",
    "//common/base:status_macros",
    "//tests/simulation:run_scenario",
    "//tests/simulation:scenario",
    "//third_party:absl",
    "//third_party:glog",
]

def mutant(name, sources, libs, main = "//tests/simulation:simulation_main.cc", deps = _SIMULATION):
    """Builds the program `name` from the fault in `name`.patch.

    Args:
      name: of the program, and of the patch.
      sources: labels of the source files that the patch changes.
      libs: labels of the libraries with these sources. Their own objects are not linked, because
        the mutated ones define the same symbols and come first.
      main: label of the program's own source. The default is the simulation.
      deps: libraries of `main` and of the mutated sources.
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
        srcs = mutated + [main],
        # The mutated sources may include all headers of their own libraries.
        features = ["-layering_check"],
        linkopts = ["-lpthread"],
        tags = ["no_sanitizer"],
        deps = libs + deps,
    )
