#!/usr/bin/env python3
"""Finds what a change concerns: which Swift tests, which files to lint, which other commands.

    changes.py [REVISION]      the working tree, with its new files, against REVISION; HEAD by default

Prints a plan for scripts/check.sh, one `KEY VALUE` a line:

    changed     how many files differ
    everything  every target is concerned
    tests       a test target to build and run
    builds      another target that must still compile
    format      a Swift file, or `everything`
    shell       a shell script, or `everything`
    scripts     the tests of the scripts
    client      a file of client tests
    other       a command that tests a changed file and is not run here, and the file

A file of a target concerns the target and every target that depends on it, by Package.swift. A file
that is known to no rule concerns everything."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# Runs with every change: the house rules and the links of documents.
TIDY = "TidyTests"
# They decide how everything is built.
EVERYTHING = {"Package.swift", "scripts/swift-tests.sh", "scripts/test-swift.sh"}

# Files that Swift tests read, beside those of their targets.
READERS = {
    "docs/configuration.md": ["ParleyTests"],
    "docs/operations.md": ["ServerTests"],
    "parley.example.yaml": ["ParleyTests"],
    "LoadTests/scenarios/": ["HarnessTests"],
    "Tests/Fixtures/conversations/": ["ConversationTests"],
    "Tests/Fixtures/realtime-beta-events.json": ["TestMaterial"],
    "Tests/Fixtures/realtime-events.json": ["TestMaterial"],
    "Tests/Fixtures/recordings.yaml": ["ConversationTests"],
    "Tests/Fixtures/silero_reference.json": ["SessionTests"],
    "Tests/Fixtures/transcripts/": ["SessionTests"],
}

# Commands that test a file, and that `make check` names and does not run.
COMMANDS = {
    "Sources/Server/Resources/": "make test-browser",
    "Tests/Fixtures/conversations/": "make conversations",
    "Tests/Fuzz/": "make test-fuzz",
    "Tests/browser/": "make test-browser",
    "Tests/clients/": "make test-clients",
    "Tests/conformance/": "make test-conformance",
    "Tests/metrics/": "make test-metrics",
    "Tests/pytest_parley/": "make test-clients test-browser",
    "Tests/requirements": "make test-clients test-browser",
    "Tests/scripts/silero_reference.py": "make test-vad",
    "Tests/tls/": "make test-tls",
    "Tests/vad/": "make test-vad",
    "examples/brain/": "Tests/clients/run.sh test_brain.py",
    "examples/worker/": "Tests/clients/run.sh test_jobs.py",
    "js/": "make test-browser",
}

# Files that no Swift test reads but TidyTests.
TIDY_ALONE = (
    ".ci/", ".gitignore", ".swift-format", "LICENSE", "LoadTests/", "Makefile", "Tests/Fuzz",
    "Tests/browser/", "Tests/clients/", "Tests/conformance/", "Tests/metrics/", "Tests/scripts/",
    "Tests/pytest_parley/", "Tests/requirements", "Tests/tls/", "Tests/vad/", "docs/", "examples/", "js/", "scripts/",
)
SWIFT_FOLDERS = ("Package.swift", "Sources/", "Tests/", "LoadTests/", "examples/")
# Scripts that others source.
SOURCED = {"scripts/common.sh", "scripts/swift-tests.sh"}


class Package:
    """The targets of Package.swift and what depends on them."""

    def __init__(self, description):
        """description: the output of `swift package dump-package`."""
        self.tests = set()
        self.folders = {}
        self.excluded = []
        self.dependents = {}
        for target in description["targets"]:
            name = target["name"]
            is_test = target["type"] == "test"
            folder = target.get("path") or f"{'Tests' if is_test else 'Sources'}/{name}"
            self.folders[name] = folder + "/"
            self.excluded += [f"{folder}/{path}" for path in target.get("exclude", [])]
            if is_test:
                self.tests.add(name)
            for dependency in target["dependencies"]:
                for kind in ("byName", "target"):
                    if kind in dependency:
                        self.dependents.setdefault(dependency[kind][0], set()).add(name)

    def owner(self, path):
        """The target that a file belongs to, or None."""
        if any(path == place or path.startswith(place + "/") for place in self.excluded):
            return None
        owners = [name for name, folder in self.folders.items() if path.startswith(folder)]
        return max(owners, key=lambda name: len(self.folders[name]), default=None)

    def concerned(self, names):
        """Targets and all that depend on them."""
        found, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.dependents.get(name, ())
        return found


def values(table, path):
    """The values of the keys with which the path begins."""
    return [value for key, value in table.items()
            if path.startswith(key)]


def targets_of(path, package):
    """The targets that a file concerns; None for all."""
    if path in EVERYTHING:
        return None
    readers = [name for names in values(READERS, path) for name in names]
    owner = package.owner(path)
    if owner or readers:
        return package.concerned(readers + [owner] * bool(owner))
    if path.startswith(TIDY_ALONE) or path.endswith(".md"):
        return set()
    return None


def is_format_checked(path):
    return path.endswith(".swift") and path.startswith(SWIFT_FOLDERS)


def plan(paths, package, exists):
    """The lines of the plan. `exists` tells whether a path is still there."""
    lines = [("changed", len(paths))]
    targets = {TIDY}
    for path in paths:
        found = targets_of(path, package)
        targets |= set(package.folders) if found is None else found
    if targets >= set(package.folders):
        lines.append(("everything", "yes"))
    lines += [("tests", name) for name in sorted(targets & package.tests)]
    lines += [("builds", name) for name in sorted(targets - package.tests)]
    lines += lint_plan(paths, exists)
    scripts = [path for path in paths if path.endswith(".py")
               and path.startswith(("scripts/", "Tests/scripts/"))]
    lines += [("scripts", "yes")] * bool(scripts)
    others = {}
    for path in paths:
        name = path.rpartition("/")[2]
        if path.startswith("Tests/clients/test_") and name.endswith(".py"):
            lines += [("client", name)] * exists(path)
            continue
        for command in values(COMMANDS, path):
            others.setdefault(command, path)
    return lines + [("other", f"{command} ({path})") for command, path in others.items()]


def lint_plan(paths, exists):
    """What to lint: what has changed, and all where the rules have, or where nothing has."""
    lines = []
    if not paths or ".swift-format" in paths:
        lines.append(("format", "everything"))
    else:
        lines += [("format", path) for path in paths if is_format_checked(path) and exists(path)]
    if not paths or SOURCED.intersection(paths):
        lines.append(("shell", "everything"))
    else:
        lines += [("shell", path) for path in paths
                  if (path.endswith(".sh") or path == ".ci/run") and exists(path)]
    return lines


def changed_paths(revision):
    """Files that differ from a revision, and files that git does not know yet."""
    def listed(*command):
        done = subprocess.run(["git", "-C", ROOT, *command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"parley: git cannot compare with {revision}: {done.stderr.strip()}")
        return [path for path in done.stdout.split("\0") if path]

    changed = listed("diff", "--name-only", "--no-renames", "-z", revision, "--")
    return sorted({*changed, *listed("ls-files", "--others", "--exclude-standard", "-z")})


def described_package():
    # A folder of its own, because a build and a test run keep theirs locked.
    command = ["swift", "package", "--package-path", ROOT,
               "--scratch-path", ROOT / ".build/manifest", "dump-package"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"parley: Package.swift cannot be read:\n{done.stderr.strip()}")
    return Package(json.loads(done.stdout))


def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    paths = changed_paths(revision)
    for key, value in plan(paths, described_package(), lambda path: (ROOT / path).exists()):
        print(key, value)


if __name__ == "__main__":
    main()
