"""What a disk may hold after a power loss: a model of it, fed with recorded calls.

What was synced is there: a file's bytes after `fsync` or `fdatasync` of the file, its name after `fsync` of
the folder. Of all else any part may be there: a name or not, each sector of a write or not, in any order,
and a file may be as long as it was although its bytes never arrived; they are zeros then.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from scenario import Call

SECTOR = 512
# With fewer unsynced parts than this, every choice among them is tried.
FEW = 5


@dataclass(frozen=True)
class Piece:
    """A part of a write that reaches the disk whole or not at all, or a change of length without bytes."""

    offset: int
    data: bytes | None


@dataclass
class File:
    durable: bytes = b""
    pending: list[Piece] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        while data:
            length = min(len(data), SECTOR - offset % SECTOR)
            self.pending.append(Piece(offset, data[:length]))
            offset, data = offset + length, data[length:]

    def content(self, kept: list[bool], as_long: bool) -> bytes:
        """What is there of it when those pieces arrived, and perhaps the length it had at the end."""
        bytes_ = bytearray(self.durable)
        for piece, is_kept in zip(self.pending, kept, strict=True):
            if piece.data is None:
                if is_kept or as_long:
                    del bytes_[piece.offset :]
                    bytes_.extend(bytes(piece.offset - len(bytes_)))
                continue
            end = piece.offset + len(piece.data)
            if (is_kept or as_long) and len(bytes_) < end:
                bytes_.extend(bytes(end - len(bytes_)))
            if is_kept:
                bytes_[piece.offset : end] = piece.data
        return bytes(bytes_)

    def sync(self) -> None:
        self.durable = self.content([True] * len(self.pending), True)
        self.pending.clear()


# What a name leads to: a file, the path of a folder, or nothing.
Target = File | str | None


@dataclass
class Folder:
    durable: dict[str, Target] = field(default_factory=dict)
    pending: list[dict[str, Target]] = field(default_factory=list)

    def names(self, kept: list[bool]) -> dict[str, Target]:
        names = dict(self.durable)
        for change, is_kept in zip(self.pending, kept, strict=True):
            if is_kept:
                names |= change
        return names

    def sync(self) -> None:
        self.durable = self.names([True] * len(self.pending))
        self.pending.clear()


@dataclass(frozen=True)
class Image:
    """The files that are there, by their paths, and folders that are empty or not."""

    files: tuple[tuple[str, bytes], ...]
    folders: tuple[str, ...]

    def write(self, root: Path) -> None:
        root.mkdir()
        for folder in self.folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
        for path, content in self.files:
            (root / path).write_bytes(content)


class Disk:
    """The folder `root`, which was empty at first."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.folders = {self.root: Folder()}
        self.by_inode: dict[int, File] = {}

    def file(self, call: Call) -> File:
        return self.by_inode[call.inode]

    def name(self, path: str) -> tuple[Folder, str]:
        pure = PurePosixPath(path)
        return self.folders[str(pure.parent)], pure.name

    def target(self, path: str) -> Target:
        folder, name = self.name(path)
        return folder.names([True] * len(folder.pending)).get(name)

    def change(self, changes: dict[str, Target]) -> None:
        """Changes names of one folder together."""
        folder = self.name(next(iter(changes)))[0]
        assert all(self.name(path)[0] is folder for path in changes), "from one folder to another"
        folder.pending.append({self.name(path)[1]: target for path, target in changes.items()})

    def take(self, call: Call) -> None:
        """One more call was made."""
        if call.result < 0 or not call.changes:
            return
        match call.name:
            case "mkdir":
                self.change({call.path: call.path})
                self.folders[call.path] = Folder()
            case "create":
                self.by_inode[call.inode] = File()
                self.change({call.path: self.file(call)})
            case "write":
                self.file(call).write(call.offset, call.data)
            case "ftruncate":
                self.file(call).pending.append(Piece(call.offset, None))
            case "fsync" | "fdatasync":
                if call.path in self.folders:
                    self.folders[call.path].sync()
                else:
                    self.file(call).sync()
            case "link":
                self.change({call.second: self.target(call.path)})
            case "rename":
                self.change({call.second: self.target(call.path), call.path: None})
            case "unlink" | "rmdir":
                self.change({call.path: None})
            case _:
                raise AssertionError(f"the model knows no {call.name}")

    def reachable(self) -> tuple[list[Folder], list[File]]:
        """All that has something unsynced and could be there."""
        folders, files = [], []
        for folder in self.folders.values():
            folders.append(folder)
            for names in (folder.durable, *folder.pending):
                files += [target for target in names.values() if isinstance(target, File)]
        unique = {id(file): file for file in files}
        return folders, list(unique.values())

    def image(self, names: dict[int, list[bool]], pieces: dict[int, list[bool]], as_long: bool) -> Image:
        """What is there when those changes arrived, by the identity of folder and file."""
        files, folders = [], []
        waiting = [self.root]
        while waiting:
            path = waiting.pop()
            folder = self.folders[path]
            folders.append(str(PurePosixPath(path).relative_to(self.root)))
            for name, target in folder.names(names[id(folder)]).items():
                if isinstance(target, File):
                    at = str((PurePosixPath(path) / name).relative_to(self.root))
                    files.append((at, target.content(pieces[id(target)], as_long)))
                elif target is not None:
                    waiting.append(target)
        return Image(tuple(sorted(files)), tuple(sorted(folders)))

    def images(self, choose: random.Random, count: int, in_order: bool) -> Iterator[Image]:
        """Images of the disk as it may be now: all of them where there are few, else some; always the one
        with nothing that was not synced, and the one with everything. With `in_order`, what was written
        first arrives first, in each folder and each file.
        """
        folders, files = self.reachable()
        parts = [(id(folder), len(folder.pending)) for folder in folders]
        parts += [(id(file), len(file.pending)) for file in files]
        total = sum(length for _, length in parts)

        def image(bits: list[bool], as_long: bool) -> Image:
            each = iter(bits)
            kept = {one: [next(each) for _ in range(length)] for one, length in parts}
            if in_order:
                kept = {one: sorted(bits, reverse=True) for one, bits in kept.items()}
            return self.image(kept, kept, as_long and not in_order)

        if total <= FEW:
            for every in itertools.product((False, True), repeat=total):
                yield image(list(every), False)
                yield image(list(every), True)
            return
        yield image([False] * total, False)
        yield image([True] * total, False)
        # All names and no bytes; all bytes and no names.
        of_folders = sum(len(folder.pending) for folder in folders)
        yield image([number < of_folders for number in range(total)], False)
        yield image([number >= of_folders for number in range(total)], False)
        for _ in range(count):
            often = choose.choice((0.1, 0.5, 0.9))
            bits = [choose.random() < often for _ in range(total)]
            yield image(bits, choose.random() < 0.5)
