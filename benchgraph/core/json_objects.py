"""JSON objects that keep which key is there twice, where Python drops all but the last: `json.loads(text, object_pairs_hook=pairs)`."""

from __future__ import annotations

from collections import Counter


class Doubled(dict[str, object]):
    """An object with a duplicate key, which its reader reports with its place."""

    key: str


def pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    doubled = Doubled(values)
    doubled.key = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return doubled
