"""benchdnn's perf lines: a template of %tokens%, filled in once per timed case, or once per policy if it contains %policy%.

A token is %[-0+][KMG]NAME%: a sign selects the minimum (-, the default), the mean (0) or the maximum (+) of the samples, a letter divides
by a power of 1000. All of benchdnn's names are accepted; those that do not apply to graphs, and clocks and frequencies, which are not
measured, expand to nothing. Times are milliseconds per execution of the whole graph.
"""

from __future__ import annotations

import re

from benchgraph.core.errors import did_you_mean

TEMPLATES = {"def": "perf,%engine%,%prb%,%-time%,%0time%", "csv": "perf,%engine%,%desc%,%-time%,%0time%"}
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
SAMPLED = ("time", "bw", "flops")
COUNTED = ("ops", "ibytes", "obytes", "iobytes")
CREATION = ("ctime", "cptime", "cpdtime")
DESCRIPTIVE = ("prb", "desc", "driver", "engine", "idx", "impl", "name", "mb", "policy", "attr")
EMPTY = (
    *("clocks", "freq", "axis", "cfg", "alg", "dir", "dt", "sdt", "ddt", "bia_dt", "tag", "stag", "dtag", "wtag", "stat_tag", "group"),
    *("flags", "prop", "activation", "direction", "ctx-init", "ctx-exe"),
)
KNOWN = frozenset((*SAMPLED, *COUNTED, *CREATION, *DESCRIPTIVE, *EMPTY))

TOKEN = re.compile(r"%([-0+]?)([KMG]?)([a-z_-]+)%")


def check(template: str) -> None:
    """Raise ValueError for an unknown token, or a % that begins none."""
    for token_text in re.findall(r"%[^%]*%?", TEMPLATES.get(template, template)):
        token = TOKEN.fullmatch(token_text)
        if token is None:
            raise ValueError(f"'{token_text}' is no token; write %NAME%, as in %-time%")
        if token[3] not in KNOWN:
            raise ValueError(f"unknown token {token_text}; " + (did_you_mean(token[3], KNOWN) or f"there are {', '.join(sorted(KNOWN))}"))
