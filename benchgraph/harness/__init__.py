"""From a command line to results: benchdnn's part of the work.

    knobs      knob sets: a field is an option, a default, a product axis and a repro word
    argv       the option stream as a state machine -> problems
    words      the same for commands beside a run: show, explain, tune, ...
    batch      batch files, and where files are found
    plugins    drivers/, reports/, inputs/: found and loaded by path
    problem    a driver with its knobs fixed: repro line, graph
    session    a command line run, from its first case to its reports; screen.py: what it prints meanwhile
    run        one problem after another; failure.py: what status an error becomes
    isolate    --jobs: problems in worker processes (worker.py); errors and deaths become statuses
    interrupt  Ctrl-C
    saved      the JSON report, written while cases finish; resume.py takes its results over
    phases     where a case's time goes
    contenders libraries under their policies, compared on the same data; differ.py: who is right
    compile_times  how long partitions take to compile, and to start warm
    cut        partitions of a policy, compiled; flops and bytes
    check      modes I, R, C: against the float64 reference
    timing     mode P: contenders interleaved, raw samples
    buffers    aligned memory for tensors, reused between partitions
    show       the partitioned graph, drawn
    compare    two sides of saved results
    means      ratios of contenders over groups of cases
    repro      a repro line taken apart again
    cells      how numbers and texts are said; terminal.py: tables for terminals, markup.py: Markdown
    results    statuses, samples, summary, exit code
    machine    what the numbers were measured on
    bench      clock, library and probes, exchangeable in tests

knobs, argv, batch, plugins, problem, phases and results do without numpy, so that `benchgraph --help` answers at once.
"""
