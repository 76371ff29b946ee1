"""What a disk may hold after a power cut, from the recorded order of a program's calls (tests/support/faults/record.h).

POSIX promises little: of what was written to a file since its last fsync, any block may be there, or lost; of what
was done to names in a folder (created, renamed, removed) since the folder's last fsync, any part may be done. What
fsync was called for is there. As in Pillai et al. 2014, "All File Systems Are Not Created Equal"."""

import shutil
from pathlib import Path

BLOCK = 4096
NAMES = {"open", "mkdir", "rename", "unlink"}  # calls that change a folder


def read_record(path):
    """Yields (call, inode, offset, path, renamed to, bytes)."""
    log, at = path.read_bytes(), 0
    while at < len(log):
        end = log.index(b"\n", at)
        call, *numbers = log[at:end].decode().split()
        inode, offset, *sizes = map(int, numbers)
        parts, at = [], end + 1
        for size in sizes:
            parts.append(log[at:at + size])
            at += size
        yield call, inode, offset, parts[0].decode(), parts[1].decode(), parts[2]


class Change:
    """One call. `file`: a number that, unlike an inode's, is not used again."""

    def __init__(self, call, file, path, to, offset, data):
        self.call, self.file, self.path, self.to, self.offset, self.data = call, file, path, to, offset, data
        self.safe_from = None  # the number of the call from which on no power cut undoes this one

    def folders(self):
        return {str(Path(path).parent) for path in (self.path, self.to) if path}


class Disk:
    """The tree `top` as it is now, all of it safe, and what a program then does there."""

    def __init__(self, top):
        self.top = Path(top)
        self.folders, self.first_names, self.first_data = set(), {}, {}
        self.files = {}  # inode -> file
        if self.top.exists():
            for path in [self.top, *self.top.rglob("*")]:
                if path.is_dir():
                    self.folders.add(str(path))
                else:
                    inode = path.stat().st_ino
                    self.files[inode] = self.first_names[str(path)] = -inode
                    self.first_data[-inode] = path.read_bytes()
        self.folders.add(str(self.top.parent))
        self.changes = []

    def replay(self, record):
        names = dict(self.first_names)
        for call, inode, offset, path, to, data in read_record(record):
            file = self.files.get(inode)
            if call == "open":
                if names.get(path) == file and file is not None:
                    continue
                file = self.files[inode] = names[path] = len(self.changes) + 1
            elif call == "rename":
                file = names.pop(path)
                names[to] = file
            elif call == "unlink":
                file = names.pop(path, None)
            elif call == "cut" and not inode:
                file = names[path]
            if call in ("fsync", "fsync-folder"):
                self.make_safe(call, file, path)
            self.changes.append(Change(call, file, path, to, offset, data))

    def make_safe(self, call, file, folder):
        for change in self.changes:
            if change.safe_from is not None:
                continue
            if call == "fsync" and change.file == file and change.call in ("write", "cut"):
                change.safe_from = len(self.changes)
            elif call == "fsync-folder" and change.call in NAMES and folder in change.folders():
                # Renamed between two folders: safe when the target is, the source may still be there.
                if not change.to or folder == str(Path(change.to).parent):
                    change.safe_from = len(self.changes)

    def after(self, count, mode, source):
        """(folders, {path: bytes}) after the first `count` calls and a power cut. `mode`: what becomes of that which
        is not safe: "all" is there, "none", "one" is lost, "one-kept", "half" of it, in blocks, by chance."""
        begun = self.changes[:count]
        loose = [number for number, change in enumerate(begun) if change.call in NAMES | {"write", "cut"} and
                 (change.safe_from is None or change.safe_from >= count)]
        one = source.choice(loose) if loose else None
        lost = {"all": set(), "none": set(loose), "one": {one}, "one-kept": set(loose) - {one},
                "half": {number for number in loose if source.random() < .5}}[mode]
        torn = set(loose) - lost if mode == "half" else set()
        folders, names, data = set(self.folders), dict(self.first_names), {}
        data = {file: bytearray(content) for file, content in self.first_data.items()}
        for number, change in enumerate(begun):
            if change.call in ("write", "cut"):
                content = data.setdefault(change.file, bytearray())
                if number not in lost or source.random() < .2:  # the length alone may have come
                    self.write(content, change, number in lost, source if number in torn else None)
            if number in lost:
                continue
            if change.call == "open":
                names[change.path] = change.file
            elif change.call == "mkdir":
                folders.add(change.path)
            elif change.call == "rename":
                if names.get(change.path) == change.file:
                    del names[change.path]
                names[change.to] = change.file
            elif change.call == "unlink":
                if change.file is None:
                    folders.discard(change.path)
                elif names.get(change.path) == change.file:
                    del names[change.path]
        folders = {folder for folder in folders if self.is_reached(folder, folders)}
        return folders, {path: bytes(data.get(file, b"")) for path, file in names.items()
                         if str(Path(path).parent) in folders}

    def is_reached(self, folder, folders):
        return all(str(parent) in folders for parent in [Path(folder), *Path(folder).parents]
                   if parent == self.top or self.top in parent.parents)

    @staticmethod
    def write(content, change, length_alone, torn):
        if change.call == "cut":
            if length_alone:
                return
            del content[change.offset:]
            content.extend(bytes(change.offset - len(content)))
            return
        end = change.offset + len(change.data)
        content.extend(bytes(max(0, end - len(content))))
        if length_alone:
            return
        at = change.offset
        while at < end:
            stop = min(end, (at // BLOCK + 1) * BLOCK)
            if torn is None or torn.random() < .7:
                content[at:stop] = change.data[at - change.offset:stop - change.offset]
            at = stop

    def put(self, state):
        """Makes the tree what `state` says."""
        folders, files = state
        shutil.rmtree(self.top, ignore_errors=True)
        for folder in sorted(folders):
            Path(folder).mkdir(exist_ok=True, parents=True)
        for path, content in files.items():
            Path(path).write_bytes(content)
