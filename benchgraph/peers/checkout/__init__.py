"""Another checkout or commit of benchgraph as a library under test: --library=benchgraph:PLACE.

source.py    finds the checkout, or makes one of a commit
server.py    runs in its process, on its package; standard library and the names listed in it only
client.py    the handle of that process
library.py   Checkout, the Library in this process, which the harness uses

It has a process and, where it has an environment of its own (.venv), an interpreter of its own, so that two versions of the package, of its
dependencies and of its thread pool never meet. Data and times take the same way as those of oneDNN's process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchgraph.library.protocol import Library


def checkout_library(place: str, label: str = "") -> Library:
    """The checkout or commit at `place` as a library; under another label it is another process.

    Raises InvalidArguments, with a remedy, if there is none, or it cannot be used.
    """
    from benchgraph.peers.checkout.library import Checkout

    return Checkout(place, label)
