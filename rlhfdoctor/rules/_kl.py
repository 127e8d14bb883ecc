"""What the rules about the distance from the reference share."""

from __future__ import annotations

import re

from rlhfdoctor.model import Column

KLS = ("kl_ref_token", "kl_ref_response", "kl_unknown")
"""KL columns by how much is known of them; the shape of the last may be told, never its level."""

_ANOTHER = re.compile(r"approx|old|ppo|policy_kl|loss", re.IGNORECASE)
"""Names of a KL to the policy that sampled, or of one that its weight may be inside of."""


def may_be_distance(column: Column) -> bool:
    """Say whether a KL of unknown unit can be the plain distance from the reference.

    A dialect knows what it maps. A generic log may call a KL to the policy that sampled
    ``approx_kl``, and a KL times its coefficient ``kl_loss``: both are small in every run.
    """
    named = " ".join(source.key or "" for source in column.sources)
    return column.estimator is not None or not _ANOTHER.search(named)


def told_unit(column: Column) -> str:
    """Return the unit as a sentence tells it behind a number."""
    return "(unit unknown)" if column.unit == "unknown" else column.unit
