"""Imports what the given files import, and fails with one line for each package that is missing or that
nothing imports.

    .venv-tests/bin/python Tests/scripts/check_imports.py FILE…

The test environments are installed without the packages' own dependencies, so `pip check` would name
many that nothing uses. The files themselves do not run: their import statements are read, and those of
the checkout's modules that they name. The byte code that Python keeps of it spares the first tests a
compilation."""

import ast
import importlib
import importlib.metadata
import pathlib
import sys

# Packages that are imported when a library is first used, and programs.
LATE = {
    "certifi", "cffi", "cryptography", "execnet", "h11", "httpcore", "hypercorn", "jiter", "packaging",
    "priority", "pyjwt", "pytest-xdist", "wsproto",
}
ROOT = pathlib.Path(__file__).resolve().parents[2]
# The checkout's modules and packages by name.
OURS = {
    path.parent.name if path.stem == "__init__" else path.stem: path
    for folder in ("Tests", "LoadTests", "examples", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def imports(path):
    """The modules, and the names in them, that a file imports: ("a.b", "c"), or ("a.b", None)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), path)):
        if isinstance(node, ast.Import):
            yield from ((each.name, None) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, each.name) for each in node.names)


def wanted(paths):
    """What the files import from elsewhere, each with one file that does."""
    found, waiting, seen = {}, list(paths), set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for module, name in imports(path):
            top = module.partition(".")[0]
            sibling = path.with_name(f"{top}.py")
            if sibling.exists() or top in OURS:
                waiting.append(sibling if sibling.exists() else OURS[top])
            elif top not in sys.stdlib_module_names:
                found.setdefault((module, name), path)
    return found


def attempt(module, name):
    """The reason why an import fails, or None."""
    try:
        loaded = importlib.import_module(module)
        if name is not None and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError as error:
        return str(error)
    return None


def unused():
    """The installed packages of which no module is loaded."""
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for package in importlib.metadata.distributions():
        if not any(str(package.locate_file(file)) in loaded for file in package.files or []):
            yield package.name.lower()


def main(paths):
    problems = {}
    for (module, name), path in wanted(path.resolve() for path in paths).items():
        if reason := attempt(module, name):
            problems.setdefault(reason, f"{path.relative_to(ROOT)} imports {module}: {reason}")
    for package in sorted(set(unused()) - LATE):
        problems[package] = f"nothing imports {package}"
    for line in problems.values():
        print(line)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(map(pathlib.Path, sys.argv[1:])))
