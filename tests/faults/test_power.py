"""A power loss after every system call of a session's life: at `power` every acknowledged commit is there, at
`process` what is there is what was there at some time."""

import os
import random
import shutil
from pathlib import Path

import pytest
from disk import Disk, Image
from scenario import LEVELS, PLACES, Call, Failed, Scenario, at, read_record

# How many images are made of each moment at which there are many possible ones.
IMAGES = int(os.environ.get("IMAGES", "1"))
SEED = int(os.environ.get("SEED", "1"))

LIFE = (
    *("create s", "commit 10", "commit 900", "commit 10", "compact", "commit 900", "commit 10", "close"),
    *("open s", "commit 900", "compact", "close", "create t", "commit 10", "commit 2000", "close"),
    *("delete s", "open t", "commit 10", "commit 10", "close", "create s", "close"),
)


def steps_at(place: str) -> list[str]:
    return [step for step in LIFE if step != "compact" or place.startswith("jsonl")]


class Images:
    """Looks at images, each once."""

    def __init__(self, place: str, level: str, folder: Path) -> None:
        self.place, self.level, self.root = place, level, folder / "image"
        self.checker = Scenario(level)
        self.seen: set[tuple[Image, tuple[str, ...]]] = set()

    def problem(self, image: Image, allowed: list[str]) -> str | None:
        """What is wrong with an image that must hold one of those states: at `process`, of each session for
        itself, and it may be gone.
        """
        if (image, tuple(allowed)) in self.seen:
            return None
        self.seen.add((image, tuple(allowed)))
        image.write(self.root)
        try:
            found = self.checker.do_all([at(self.place, self.root), "states"])
            if self.level == "power":
                is_right = found in allowed
            else:
                is_right = set(found.split()) <= {state for states in allowed for state in states.split()}
            if not is_right:
                return f"holds '{found}', not one of {allowed}"
            for state in found.split():
                self.checker.do(f"survive {state.partition('=')[0]}")
        except Failed as failed:
            return str(failed)
        finally:
            shutil.rmtree(self.root)
        return None


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("place", PLACES)
def test_what_was_acknowledged_survives_a_power_loss(place: str, level: str, folder: Path) -> None:
    steps = steps_at(place)
    # The states there are, one after each step.
    states = [""]
    plain = folder / "plain"
    plain.mkdir()
    with Scenario(level) as scenario:
        scenario.do(at(place, plain))
        for step in steps:
            scenario.do(step)
            states.append(scenario.do("states"))
    disk, record = folder / "disk", folder / "record"
    disk.mkdir()
    with Scenario(level, disk, record) as scenario:
        scenario.do(at(place, disk))
        for number, step in enumerate(steps, 1):
            scenario.do(step)
            scenario.do(f"faults mark {number}")

    images = Images(place, level, folder)
    with images.checker:
        problems = problems_of(read_record(record), states, images, Disk(disk.resolve()))
    assert len(images.seen) > 100
    assert not problems, f"{len(problems)} of {len(images.seen)} images:\n" + "\n".join(problems[:20])


def problems_of(calls: list[Call], states: list[str], images: Images, model: Disk) -> list[str]:
    """Goes through the record and looks at the images of each moment."""
    choose = random.Random(SEED)
    # Lines of JSON that were never synced are only promised in the order they were written.
    in_order = images.level == "process" and images.place.startswith("jsonl")
    acknowledged, problems = 0, []
    for number, call in enumerate(calls, 1):
        if call.name == "mark":
            acknowledged = int(call.path.rpartition(" ")[2])
        elif not call.changes:
            continue
        model.take(call)
        # The step at work may be there or not.
        first = acknowledged if images.level == "power" else 0
        allowed = states[first : acknowledged + 2]
        for image in model.images(choose, IMAGES, in_order):
            problem = images.problem(image, allowed)
            if problem is not None:
                problems.append(f"after call {number} ({call.name} {call.path}): {problem}")
    return problems
