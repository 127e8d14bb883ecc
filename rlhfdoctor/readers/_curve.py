"""Which of the records in a text are the run's curve, and at which steps they stand."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from rlhfdoctor.model import Location, Note, Setting
from rlhfdoctor.readers import _grammars as grammars
from rlhfdoctor.readers._harvest import A_FEW, BARS, Found, Harvest, where_of
from rlhfdoctor.readers._json import number
from rlhfdoctor.readers._sift import commas, ranks, strangers


def curve(harvest: Harvest) -> tuple[list[Found], Setting | None, list[Note]]:
    """Return the records of the curve, how many steps were planned, and what there is to note."""
    found, notes = _chosen(harvest)
    told = commas(found, harvest.broken, harvest.name)
    planned = _planned(harvest, found, notes)
    for item, rank in ranks(found):
        item.rank = rank
    return found, planned, told + notes


def _chosen(harvest: Harvest) -> tuple[list[Found], list[Note]]:
    """Return the records of the run's curve, with steps, and notes on what was left out."""
    tiers: dict[int, list[Found]] = defaultdict(list)
    keys = Counter(tuple(item.record) for item in harvest.found if item.tier == 4)
    lines = sum(item.tier == 2 for item in harvest.found)
    for item in harvest.found:
        if item.tier == 4 and keys[tuple(item.record)] < A_FEW:
            continue
        if item.tier == 2 and lines < A_FEW and _counts_alone(item):
            continue
        tiers[item.tier].append(item)
    enough = (tier for tier in sorted(tiers) if len(tiers[tier]) >= A_FEW)
    tier = next(enough, min(tiers, default=0))
    notes = []
    others = [item for at in tiers for item in tiers[at] if at != tier]
    if others:
        shown = ", ".join(list(others[0].record)[:4])
        text = f"{len(others)} other lines with numbers were left out, such as {shown}"
        notes.append(Note(where_of(harvest.name, others[0].line), text))
    found = sorted(tiers.get(tier, []), key=lambda item: item.clock)
    if tier == BARS:
        found = _one_bar(found, harvest.name, notes)
    _rollouts(found, harvest.name, notes)
    strange = strangers(found)
    if strange:
        shown = ", ".join(list(strange[0].record)[:4])
        text = (
            f"{len(strange)} records unlike the others, as of a generation, were left out: {shown}"
        )
        notes.append(Note(where_of(harvest.name, strange[0].line), text))
        apart = set(map(id, strange))
        found = [item for item in found if id(item) not in apart]
    return found, notes


def _counts_alone(item: Found) -> bool:
    """Say whether a line measures one thing at most, in whole numbers: a title, not a record."""
    known = [value for key, value in item.record.items() if grammars.measured(key)]
    return len(known) < 2 and all(str(value).lstrip("+-").isdigit() for value in known)


def _one_bar(found: list[Found], name: str, notes: list[Note]) -> list[Found]:
    """Return the numbers of one bar: of several the one that rises, epoch by epoch.

    A bar that begins anew in every iteration counts no steps of the run.
    """
    families: dict[str, list[Found]] = defaultdict(list)
    for item in found:
        families[item.grammar].append(item)
    ranked = sorted(families.values(), key=lambda items: (_rises(items), len(items)))
    best = ranked[-1]
    if len(ranked) > 1:
        bars = ", ".join(repr(items[0].grammar[4:]) for items in ranked[:-1])
        text = f"{len(found) - len(best)} rows of other progress bars were left out: {bars}"
        notes.append(Note(name, text))
    if not _rises(best):
        for item in best:
            item.record = {key: value for key, value in item.record.items() if key != "step"}
    return best


def _rises(found: list[Found]) -> bool:
    places = [
        (number(item.record.get("epoch", 0)) or 0.0, number(item.record["step"]) or 0.0)
        for item in found
    ]
    return all(former < later for former, later in pairwise(places))


def _rollouts(found: list[Found], name: str, notes: list[Note]) -> None:
    """Count the rollouts of slime in steps where several steps train on one rollout.

    What is told of a rollout after the steps that train on it stands at the last of them.
    """
    rollouts = [item for item in found if item.grammar == "rollout"]
    steps = {item.place for item in found if item.grammar == "table"} - {None}
    ids = {item.place for item in rollouts if not item.evaluates}
    if not ids or len(steps) <= len(ids):
        return
    times = round(len(steps) / len(ids))
    last = 0
    for item in found:
        place = item.place or 0
        if item.grammar == "rollout":
            first = place * times
            item.record["step"] = last if first <= last < first + times else first
        elif item.place is not None:
            last = place
    notes.append(Note(name, f"{times} steps train on one rollout; rollouts are counted in steps"))


def _planned(harvest: Harvest, found: list[Found], notes: list[Note]) -> Setting | None:
    """Give records without a step that of the progress bar; return the length it tells."""
    name = harvest.name
    stated = [item for item in found if "max_steps" in item.record]
    if stated:
        total = float(str(stated[-1].record["max_steps"]))
        return Setting("planned_steps", total, Location(name, line=stated[-1].line))
    placed = [item for item in found if item.counted and not item.evaluates]
    loose = [item for item in found if not item.counted]
    loose = [item for item in loose if "global_step/max_steps" not in item.record]
    progress = any("global_step/max_steps" in item.record for item in found)
    if loose and not (placed or progress) and loose[0].tier != BARS:
        parts = _trainings(loose, harvest.finishes)
        told: list[Note] = []
        bars = [_by_bar(part, at > 0, name, told) for at, part in enumerate(parts)]
        if len(parts) == 1:
            bars = [bars[0] or _by_spacing(loose, name, told)]
        if all(bars):
            notes.extend(told)
            if len(set(bars)) > 1:
                return None
            return Setting("planned_steps", float(bars[0] or 0), Location(name))
        for item in loose:
            item.record.pop("step", None)
        _by_launch(loose, parts, harvest.launches, name, notes)
        if len(parts) > 1:
            return None
    drawn = [key for key in harvest.trained if key[1] > 1]
    if drawn and not any("[" in title or "poch" in title for title, _ in drawn):
        longest = max(drawn, key=lambda key: key[1])
        return Setting("planned_steps", float(longest[1]), Location(name))
    return None


def _trainings(found: list[Found], finishes: Sequence[int]) -> list[list[Found]]:
    """Return the records of each training: a trainer's summary ends one.

    Evaluations that follow the summary belong to the training before it.
    """
    parts: list[list[Found]] = [[]]
    ends = 0
    for item in found:
        before = bisect_right(finishes, item.clock)
        if before > ends and not item.evaluates:
            ends = before
            if parts[-1]:
                parts.append([])
        parts[-1].append(item)
    return parts


def _by_bar(found: list[Found], later: bool, name: str, notes: list[Note]) -> int | None:
    """Count records by the progress bar that stands before, or after, each; return its length.

    Its count must rise from record to record, at the pace of a logging interval: a bar is redrawn
    at most ten times a second, and a buffered log has its records far behind their bars. It may
    begin anew where another run begins. later: another training came before; its bar, which is
    full, is not this one's.
    """
    trains = [item for item in found if not item.evaluates]
    for behind in (False, True) if trains else ():
        around = {id(item): item.after if behind else item.before for item in found}
        seen = Counter(key for item in trains for key in around[id(item)])
        for key in sorted(seen, key=lambda key: -key[1]):
            if seen[key] < len(trains) or (later and around[id(trains[0])][key] == key[1]):
                continue
            if _paced([around[id(item)][key] for item in trains], key[1]):
                for item in found:
                    count = around[id(item)].get(key, item.before.get(key))
                    if count is not None:
                        item.record = {"step": count, **item.record}
                text = f"the records carry no step; it is the progress bar's, of {key[1]}"
                notes.append(Note(name, text))
                return key[1]
    return None


def _by_spacing(found: list[Found], name: str, notes: list[Note]) -> int | None:
    """Count records of a buffered log, whose bars run ahead of them; return the bar's length.

    Where the bar at the last record allows one logging interval alone, where no record would be
    ahead of its bar and the epochs keep the same pace, the interval is known.
    """
    trains = [item for item in found if not item.evaluates]
    count = len(trains)
    if count < A_FEW:
        return None
    for key in sorted(trains[-1].before, key=lambda key: -key[1]):
        reached = trains[-1].before[key]
        every = reached // count
        alone = (
            every > 0
            and reached // every == count
            and (every == 1 or reached // (every - 1) != count)
        )
        ahead = any(at * every > item.before.get(key, 0) for at, item in enumerate(trains, start=1))
        if alone and not ahead and _even(trains):
            places = {id(item): at * every for at, item in enumerate(trains, start=1)}
            step = 0
            for item in found:
                step = places.get(id(item), step)
                item.record = {"step": step, **item.record}
            text = (
                f"the records carry no step and were printed late; {count} records of a progress"
                f" bar at {reached} make one every {every} steps"
            )
            notes.append(Note(name, text))
            return key[1]
    return None


_UNEVEN = 0.02
"""Share of the whole by which an epoch may be off its place: it is rounded to two digits."""


def _even(found: list[Found]) -> bool:
    """Say whether the epochs of records, where they are logged, rise in proportion."""
    epochs = [number(item.record["epoch"]) for item in found if "epoch" in item.record]
    last = epochs[-1] if epochs else None
    if len(epochs) < len(found) or not last or any(epoch is None for epoch in epochs):
        return not epochs
    return all(
        abs(float(epoch or 0) / last - at / len(epochs)) < _UNEVEN + 0.01 / last
        for at, epoch in enumerate(epochs, start=1)
    )


def _by_launch(
    found: list[Found],
    parts: list[list[Found]],
    launches: Sequence[int],
    name: str,
    notes: list[Note],
) -> None:
    """Number the records of each launch from 1, where a log holds several that made records."""
    training = {id(item): at for at, part in enumerate(parts) for item in part}
    starts = [(training[id(item)], bisect_right(launches, item.clock)) for item in found]
    if len(set(starts)) < 2:
        return
    counts: Counter[tuple[int, int]] = Counter()
    for item, start in zip(found, starts, strict=True):
        counts[start] += 1
        item.record = {"step": counts[start], **item.record}
    text = f"the records of {len(counts)} launches carry no step; each launch is numbered from 1"
    notes.append(Note(name, text))


def _paced(counts: list[int], total: int) -> bool:
    if counts[0] < 1:
        return False
    gaps = Counter(later - former for former, later in pairwise(counts) if later > former)
    pace = gaps.most_common(1)[0][0] if gaps else counts[0]
    on_time = all(count % pace == 0 or count in (1, total) for count in counts)
    falls = [at for at, (former, later) in enumerate(pairwise(counts), start=1) if former >= later]
    bounds = [0, *falls, len(counts)]
    resumed = all(high - low >= A_FEW for low, high in pairwise(bounds))
    anew = all(counts[at - 1] > counts[at] <= counts[0] for at in falls)
    level = any(counts[at - 1] == counts[at] for at in falls)
    return on_time and (anew or (resumed and not level))
