"""What scripts/failures.py shows of the output of each kind of suite."""

import pathlib
import tempfile
import unittest

from failures import ROOT, SwiftSources, read, report

SESSION = ROOT / "Tests/SessionTests/VoiceSessionTests.swift"
STORM = ROOT / "Tests/ServerTests/Shard/ShardStormTests.swift"

STARTED = """\
◇ Test run started.
◇ Suite VoiceSessionTests started.
"""
ENDED = "✘ Test run with 2 tests in 1 suite failed after 0.1 seconds with 1 issue.\n"
TRAP = f"""\
◇ Test aTextTurnIsToldInOrder() started.
Session/VoiceSession.swift:12: Fatal error: no response
*** Program crashed: Illegal instruction at 0x00007f92bb0f9361 ***

Thread 0 "parleyPackageT":

  0  0x00007f92b9692301 sigsuspend + 65 in libc.so.6

Thread 2 "oot.default-qos" crashed:

  0                  0x00007f92bb0f9361 _assertionFailure(_:_:file:line:flags:) + 225 in libswiftCore.so
  1 [ra]             0x000056328264bd12 VoiceSession.handle(at:) + 97 in a.xctest at {ROOT}/Sources/Session/VoiceSession.swift:12:9
  2 [async] [system] 0x0000563282645317 VoiceSessionTests.aTextTurnIsToldInOrder() + 1 in a.xctest at {SESSION}:37:9
  3 [async]          0x0000563282644ff0 static $s6XTests6ATestsV5traps in a.xctest at /tmp/swift-generated-sources/@__a

Images (19 omitted):

 r9 0x00007f92a80129c0  12 80 2a berror: Process '/a b --skip-build' exited with unexpected signal code 4
"""


class ReportCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = SwiftSources()

    def shown(self, log, target="test-swift"):
        return report(target, log.split("\n"), self.sources, f"{ROOT}/.build/test/{target}.log")

    def assertShows(self, log, expected, target="test-swift"):
        self.maxDiff = None
        self.assertEqual(self.shown(log, target), expected)


class SwiftTests(ReportCase):
    def test_an_expectation_has_its_values_and_its_comment(self):
        self.assertShows(STARTED + """\
✘ Test aTextTurnIsToldInOrder() recorded an issue at VoiceSessionTests.swift:37:9: Expectation failed: (a → "x
y") == 2
↳ a comment
  of two lines
✘ Test aTextTurnIsToldInOrder() recorded an issue at VoiceSessionTests.swift:38:9: Expectation failed: b
✘ Test aTextTurnIsToldInOrder() failed after 0.001 seconds with 2 issues.
""" + ENDED, """\
FAILED aTextTurnIsToldInOrder() at VoiceSessionTests.swift:37
    Expectation failed: (a → "x
    y") == 2
    a comment
    of two lines
    and 1 further issues
    again: make unit T=VoiceSessionTests""")

    def test_the_file_is_that_of_the_test_and_not_of_its_helper(self):
        self.assertIn("make unit T=VoiceSessionTests", self.shown(STARTED + """\
✘ Test aTextTurnIsToldInOrder() recorded an issue at ScriptedSession.swift:1:1: Caught error: Odd()
""" + ENDED))

    def test_a_title_names_a_test(self):
        self.assertShows(STARTED + """\
✘ Test "The repository keeps the rule" recorded an issue with 1 argument rule → imports at TidyTests.swift:9:9: Issue recorded
↳ Sources/A.swift:1
✘ Test "The repository keeps the rule" with 9 test cases failed after 1 seconds with 1 issue.
""" + ENDED, """\
FAILED "The repository keeps the rule" at TidyTests.swift:9
    rule → imports
    Sources/A.swift:1
    again: make unit T=TidyTests""")

    def test_a_seed_is_in_the_command_where_the_test_takes_one(self):
        name = "aStormLeavesNothingOpen"
        issue = ("✘ Test {}(seed:) recorded an issue with 1 argument seed → 7 at {}:137:13:"
                 " Expectation failed: x\n↳ seed 7: a response ended twice\n")
        text = STORM.read_text(encoding="utf-8")
        name = text.split("Seeds.chosen")[1].split("func ")[1].split("(")[0]
        self.assertIn("again: PARLEY_SEED=7 make unit T=ShardStormTests",
                      self.shown(STARTED + issue.format(name, STORM.name) + ENDED))
        self.assertIn("again: make unit T=VoiceSessionTests", self.shown(
            STARTED + issue.format("aTextTurnIsToldInOrder", SESSION.name) + ENDED))

    def test_an_assertion_is_cut_and_a_diff_is_not(self):
        lines = "".join(f"  - {number}\n" for number in range(20))
        issue = ("✘ Test aTextTurnIsToldInOrder() recorded an issue at VoiceSessionTests.swift:37:9:"
                 " Issue recorded\n↳ {}\n" + lines)
        cut = self.shown(STARTED + issue.format("wrong") + ENDED).split("\n")
        self.assertEqual(cut[6:8], ["    - 4", "    … 15 further lines"])
        diff = self.shown(STARTED + issue.format("`UPDATE_GOLDEN=1 make unit`") + ENDED)
        self.assertIn("    - 19\n    again: ", diff)

    def test_a_trap_names_the_error_and_the_test(self):
        self.assertShows(STARTED + TRAP, """\
FAILED VoiceSessionTests.aTextTurnIsToldInOrder() at VoiceSessionTests.swift:37
    Session/VoiceSession.swift:12: Fatal error: no response
    *** Program crashed: Illegal instruction at 0x00007f92bb0f9361 ***
    error: the process exited with unexpected signal code 4
    in VoiceSession.handle(at:) at Sources/Session/VoiceSession.swift:12
    in VoiceSessionTests.aTextTurnIsToldInOrder() at Tests/SessionTests/VoiceSessionTests.swift:37
    again: make unit T=VoiceSessionTests""")

    def test_a_run_that_stopped_without_a_trace_lists_its_tests(self):
        self.assertShows(STARTED + """\
◇ Test one() started.
◇ Test "two" started.
◇ Test three(a:) started.
✔ Test three(a:) with 2 test cases passed after 0.1 seconds.
➜ Test four() skipped: "why"
timeout: sending signal TERM to command ‘make’
""", """\
FAILED the run of test-swift
    timeout: sending signal TERM to command ‘make’
    had begun and not ended:
      one()
      "two"
    again: make test-swift ARGS="--no-parallel\"""")

    def test_another_target_is_run_again_by_its_name(self):
        self.assertIn("again: make test-vad", self.shown(STARTED + TRAP, "test-vad"))


class OtherTests(ReportCase):
    def test_printed_blocks_are_repeated(self):
        block = "FAILED test_a.py::one\n    assert 1\n    again: x"
        self.assertShows(f"....\n{block}\nFAILED test_a.py::one - assert 1\nmore\n", block)

    def test_the_summary_of_pytest_is_enough(self):
        self.assertShows(
            "FAILED test_a.py::one - assert 1 == 2\nERROR test_a.py::two\n1 failed\n", """\
FAILED test_a.py::one
    assert 1 == 2
    again: Tests/clients/run.sh 'test_a.py::one'
FAILED test_a.py::two
    no reason is given
    again: Tests/clients/run.sh 'test_a.py::two'""", "test-clients")

    def test_errors_of_a_build_are_shown_once(self):
        error = f"{ROOT}/Sources/A.swift:1:2: error: no such thing"
        self.assertShows(f"""\
[1/2] Compiling A
{error}
 1 | a
   | `- error: no such thing
{error}
error: emit-module command failed with exit code 1 (use -v to see invocation)
make: *** [Makefile:1: build] Error 1
""", """\
FAILED the build of build
    Sources/A.swift:1:2: error: no such thing
    again: make build""", "build")

    def test_findings_of_lint_name_their_places(self):
        self.assertShows(f"""\
{ROOT}/Sources/A.swift:1:2: error: [Indentation] replace leading whitespace

In scripts/a.sh line 4:
echo $a
     ^-- SC2086 (info): Double quote to prevent globbing and word splitting.
""", """\
FAILED lint
    Sources/A.swift:1:2: error: [Indentation] replace leading whitespace
    scripts/a.sh:4: SC2086 (info): Double quote to prevent globbing and word splitting.
    again: make lint""", "lint")

    def test_what_is_not_known_is_the_end_of_the_log_and_of_the_log_that_it_names(self):
        (ROOT / ".build/test").mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
                "w", dir=ROOT / ".build/test", prefix="sample-", suffix=".log") as other:
            other.write("first\nlast\n")
            other.flush()
            path = pathlib.Path(other.name).relative_to(ROOT)
            self.assertShows(f"parley: it failed; see {path}\nmake: *** Error 1\n", f"""\
FAILED make test-x
    parley: it failed; see {path}
    {path}:
        first
        last
    again: make test-x""", "test-x")

    def test_many_failures_are_named(self):
        log = "".join(f"FAILED {number}\n    a\n" for number in range(30))
        lines = self.shown(log).split("\n")
        self.assertEqual(lines[38:41], ["FAILED 19", "    a", "FAILED 20"])
        self.assertEqual(lines[-2:], ["FAILED 29", "    the whole log: .build/test/test-swift.log"])

    def test_colours_and_progress_are_no_part_of_a_log(self):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as log:
            log.write("a\rb\n\x1b[31mred\x1b[0m\n")
            log.flush()
            self.assertEqual(read(pathlib.Path(log.name)), ["b", "red", ""])
