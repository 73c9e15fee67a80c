"""The public name of the PyTorch bridge in `benchgraph/torch`: for `import`, and for `python -m benchgraph.framework.torch`."""

from benchgraph.torch import Summary, backend, profiled, recorded, weights_changed

__all__ = ["Summary", "backend", "profiled", "recorded", "weights_changed"]

if __name__ == "__main__":
    from benchgraph.torch.__main__ import main

    main(prog_name="python -m benchgraph.framework.torch")
