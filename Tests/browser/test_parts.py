"""The parts of parley.js and of the operator's page on Node, and the package of parley.js."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
from parley_server import HANG_GUARD, ROOT

PARTS = pathlib.Path(__file__).with_name("parts")
SOURCES = ROOT / "Sources/Server/Resources"
PACKAGE = ROOT / ".build/js/package"
PAGE = ROOT / ".build/js/page"


def run(*command):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_GUARD, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def archive():
    """The packed client."""
    done = run("scripts/js.sh")
    assert done.returncode == 0, done.stderr
    # Beside it the pages' modules, which Node takes for modules only with such a description.
    shutil.copytree(SOURCES, PAGE)
    (PAGE / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    return ROOT / done.stdout.split()[-1]


@pytest.mark.parametrize("part", sorted(path.name for path in PARTS.glob("*.test.mjs")))
def test_a_part(archive, part):
    done = run("node", "--test", str(PARTS / part))
    assert done.returncode == 0, done.stdout


def test_the_package_has_every_module_and_the_same_bytes_each_time(archive):
    first = archive.read_bytes()
    assert run("scripts/js.sh").returncode == 0 and archive.read_bytes() == first
    names = run("tar", "-tzf", str(archive)).stdout.split()
    modules = {f"package/{path.relative_to(SOURCES)}" for path in SOURCES.glob("parley/*.js")}
    assert modules | {"package/package.json", "package/parley.js", "package/parley.d.ts"} <= set(names)
    description = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in description
    for target in description["exports"]["."].values():
        assert (PACKAGE / target).exists()


def test_the_types_name_what_the_module_exports(archive):
    types = (PACKAGE / "parley.d.ts").read_text(encoding="utf-8")
    declared = set(re.findall(r"^export (?:class|function) (\w+)", types, re.MULTILINE))
    script = f"""import('{PACKAGE / 'parley.js'}').then((all) => console.log(JSON.stringify([
        Object.keys(all), Object.getOwnPropertyNames(all.ParleySession.prototype)])))"""
    exported, members = json.loads(run("node", "-e", script).stdout)
    assert declared == set(exported)
    declaration = types[types.index("export class ParleySession") :]
    missing = [name for name in members
               if not re.search(rf"^  (?:readonly |set )?{name}[(:<]", declaration, re.MULTILINE)]
    assert len(members) > 20 and missing == []
    # Each error that the module can make is declared.
    errors = (PACKAGE / "parley/errors.js").read_text(encoding="utf-8")
    codes = re.findall(r"^  (\w+):(?:\n| )", errors[: errors.index("};")], re.MULTILINE)
    assert len(codes) > 15 and all(f'"{code}"' in types for code in codes)
