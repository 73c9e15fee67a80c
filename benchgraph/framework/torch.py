"""The public name of the PyTorch bridge in `benchgraph/torch`: for `import`, and for `python -m benchgraph.framework.torch`."""

from benchgraph.present.layer_table import layer_text
from benchgraph.results.result import PolicyTiming, Result, Status, Timing
from benchgraph.torch import Summary, backend, profiled, recorded, weights_changed
from benchgraph.torch.profile import Profile

__all__ = ["Summary", "backend", "layer_table", "profiled", "recorded", "weights_changed"]


def layer_table(profile: Profile) -> str:
    """A table for each graph of a profile. Shares of the roofs are not there, as nothing measures these here."""
    tables = []
    for graph in profile.graphs:
        layers = graph.layer_profile
        timing = PolicyTiming("torch.compile", Timing((layers.plain_s,), 1), ())
        tables.append(layer_text(Result(Status.EXECUTED), timing, layers))
    return "\n\n".join(tables)


if __name__ == "__main__":
    from benchgraph.torch.__main__ import main

    main(prog_name="python -m benchgraph.framework.torch")
