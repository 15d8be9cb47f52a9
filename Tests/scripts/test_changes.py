"""Which tests scripts/changes.py chooses for a change."""

import os
import pathlib
import unittest

from changes import EVERYTHING, ROOT, Package, described_package, plan, targets_of


def target(name, dependencies=(), kind="regular", **fields):
    return {"name": name, "type": kind, **fields,
            "dependencies": [{"byName": [name, None]} for name in dependencies]}


PACKAGE = Package({"targets": [
    target("CLinux", kind="system"),
    target("Codec"),
    target("Session", ["Codec"]),
    target("Server", ["Session", "CLinux"]),
    target("load", ["Codec"], "executable", path="LoadTests", exclude=["peers", "RESULTS.md"]),
    target("CodecTests", ["Codec"], "test"),
    target("SessionTests", ["Session"], "test"),
    target("ServerTests", ["Server"], "test"),
    target("HarnessTests", ["load"], "test"),
    target("TidyTests", (), "test"),
]})


def chosen(*paths, key="tests", package=PACKAGE, missing=()):
    """The values of a key in the plan for these paths."""
    lines = plan(paths, package, lambda path: path not in missing)
    return [value for name, value in lines if name == key]


class LayerTests(unittest.TestCase):
    def test_a_file_concerns_its_layer_and_those_above(self):
        self.assertEqual(
            chosen("Sources/Session/A/B.swift"), ["ServerTests", "SessionTests", "TidyTests"])
        self.assertEqual(chosen("Sources/Session/A/B.swift", key="builds"), ["Server", "Session"])
        self.assertEqual(chosen("Sources/CLinux/shim.h"), ["ServerTests", "TidyTests"])

    def test_a_test_concerns_its_target(self):
        self.assertEqual(chosen("Tests/CodecTests/A.swift"), ["CodecTests", "TidyTests"])

    def test_files_that_the_package_excludes_concern_no_layer(self):
        self.assertEqual(chosen("LoadTests/A.swift"), ["HarnessTests", "TidyTests"])
        self.assertEqual(chosen("LoadTests/RESULTS.md", "LoadTests/peers/a.py"), ["TidyTests"])

    def test_files_that_tests_read_concern_them(self):
        self.assertEqual(
            chosen("Tests/Fixtures/transcripts/a.transcript"), ["SessionTests", "TidyTests"])
        self.assertEqual(chosen("docs/operations.md"), ["ServerTests", "TidyTests"])

    def test_documents_and_scripts_concern_the_house_rules(self):
        paths = ["README.md", "docs/a/b.md", "scripts/a.sh", "Tests/clients/a.py", "Makefile"]
        self.assertEqual(chosen(*paths), ["TidyTests"])
        self.assertEqual(chosen(*paths, key="everything"), [])

    def test_what_no_rule_knows_concerns_everything(self):
        for path in ["Package.swift", "new.yaml", "Tests/Fixtures/new.json", "Sources/New/A.swift"]:
            self.assertEqual(chosen(path, key="everything"), ["yes"], path)
            self.assertEqual(len(chosen(path)), 5)

    def test_nothing_changed_is_the_house_rules_and_lint_of_everything(self):
        self.assertEqual(chosen(), ["TidyTests"])
        self.assertEqual(chosen(key="changed"), [0])
        self.assertEqual(chosen(key="format") + chosen(key="shell"), 2 * ["everything"])


class LintTests(unittest.TestCase):
    def test_changed_files_are_linted(self):
        paths = ["Sources/Codec/A.swift", "scripts/a.sh", "README.md", "LoadTests/peers/a.swift"]
        self.assertEqual(chosen(*paths, key="format"), [paths[0], paths[3]])
        self.assertEqual(chosen(*paths, key="shell"), ["scripts/a.sh"])

    def test_deleted_files_are_not(self):
        for key, path in [("format", "Sources/Codec/A.swift"), ("shell", "scripts/a.sh"),
                          ("client", "Tests/clients/test_a.py")]:
            self.assertEqual(chosen(path, key=key, missing=[path]), [])

    def test_changed_rules_concern_every_file(self):
        self.assertEqual(chosen(".swift-format", key="format"), ["everything"])
        self.assertEqual(chosen("scripts/common.sh", key="shell"), ["everything"])


class CommandTests(unittest.TestCase):
    def test_client_tests_are_named_by_their_files(self):
        self.assertEqual(chosen("Tests/clients/test_a.py", key="client"), ["test_a.py"])
        self.assertEqual(chosen("Tests/clients/test_a.py", key="other"), [])

    def test_commands_that_are_not_run_are_named_once(self):
        self.assertEqual(
            chosen("Tests/clients/a.py", "Tests/clients/b.py", "Tests/tls/run.sh", key="other"),
            ["make test-clients (Tests/clients/a.py)", "make test-tls (Tests/tls/run.sh)"])

    def test_scripts_have_tests(self):
        self.assertEqual(chosen("scripts/changes.py", key="scripts"), ["yes"])
        self.assertEqual(chosen("scripts/a.sh", key="scripts"), [])


class RepositoryTests(unittest.TestCase):
    """The rules against the repository itself."""

    @classmethod
    def setUpClass(cls):
        cls.package = described_package()

    def test_the_package_is_read(self):
        above = chosen("Sources/Records/Records.swift", package=self.package)
        self.assertEqual(above, ["ParleyTests", "RecordsTests", "TidyTests"])
        folders = {path.name for path in ROOT.glob("Tests/*Tests")}
        self.assertEqual(self.package.tests, folders)

    def test_every_file_is_known_to_a_rule(self):
        paths = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [name for name in folders if name == ".ci" or name[0] not in "._"]
            place = pathlib.Path(folder).relative_to(ROOT)
            paths += [str(place / name) for name in files if place.parts[:1] != ("models",)]
        self.assertIn("Tests/scripts/test_changes.py", paths)
        known = EVERYTHING | {".git", "Package.resolved"}
        unknown = [path for path in paths
                   if path not in known and targets_of(path, self.package) is None]
        self.assertEqual(unknown, [])
