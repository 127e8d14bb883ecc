"""What was found in a run, how each file and key was understood, and what is missing for whom."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from rlhfdoctor.model import Run
from rlhfdoctor.profile import rules


def inspection(run: Run) -> dict[str, Any]:
    """Return the document of ``inspect``."""
    return {
        "path": run.path,
        "framework": run.framework,
        "algorithm": run.algorithm,
        "dialect": run.dialect,
        "step_unit": run.step_unit,
        "first_step": run.first_step,
        "last_step": run.last_step,
        "logged_steps": run.logged_steps,
        "sources": [asdict(source) for source in run.sources],
        "columns": [
            {
                "name": name,
                "unit": column.unit,
                "estimator": column.estimator,
                "reduction": column.reduction,
                "derived": column.derived,
                "corrections": list(column.corrections),
                "keys": sorted({place.key or "" for place in column.sources}),
                "files": sorted({place.file for place in column.sources}),
            }
            for name, column in run.columns.items()
        ],
        "unmapped": sorted(run.unmapped),
        "checkpoints": [asdict(checkpoint) for checkpoint in run.checkpoints],
        "samples": run.sample_count,
        "config": [
            {"name": name, "value": setting.value, "file": setting.where.file}
            for name, setting in sorted(run.config.items())
        ],
        "log_offset": run.log_offset,
        "conflicts": [
            {"key": item.key, "steps": item.steps, "first_step": item.first_step}
            for item in run.conflicts
        ],
        "seams": [{"left": seam.left, "step": seam.step} for seam in run.seams],
        "silenced": silenced(run),
        "notes": [{"where": note.where, "text": note.text} for note in run.notes],
    }


def silenced(run: Run) -> list[dict[str, Any]]:
    """Return what the run lacks, and which rules cannot look for want of it.

    The most wanted first; a rule stands under each thing that it lacks.
    """
    wanting: dict[str, list[str]] = defaultdict(list)
    for rule in rules():
        for need in rule.missing(run):
            wanting[need].append(rule.code)
    ordered = sorted(wanting.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"missing": need, "rules": sorted(codes)} for need, codes in ordered]
