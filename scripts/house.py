"""Mirror the code: sizes, parameters, complexity, cycles, words. ``make house`` prints it and fails nothing.

The last column is what stood there before the engine became a package of its own.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = "Written by scripts/reference.py"  # in pages that nobody wrote by hand
FOLDERS = ("bench", "dags", "demo", "expectations", "medallion", "plugins", "scripts", "spark_jobs")
MAX_LINES, MAX_PARAMETERS, MAX_COMPLEXITY = 300, 6, 12
# Names that say nothing to an engineer who has not written them.
DIALECT = ("told", "found", "one", "another", "its", "led", "named", "listed", "made", "kept", "there")


@dataclass(frozen=True)
class Row:
    """One measurement: how it is now, how it was before, and the places that are worst."""

    what: str
    now: int
    before: int
    worst: Sequence[str] = ()


BEFORE = {
    "import cycles": 3,
    f"modules over {MAX_LINES} lines": 9,
    f"functions with more than {MAX_PARAMETERS} parameters": 11,
    f"functions more complex than {MAX_COMPLEXITY}": 0,
    "names of the dialect": 706,
    "words of documentation": 19_903,
}


def modules() -> Iterator[Path]:
    """Every Python file that is not a test."""
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods too."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many arguments a caller may have to give; ``self`` is not among them."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


def names_in(tree: ast.Module) -> Iterator[str]:
    """Every name that a module reads, binds or takes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def too_complex() -> list[str]:
    """Functions over MAX_COMPLEXITY, as ruff counts them."""
    command = [sys.executable, "-m", "ruff", "check", "--select", "C901", "--output-format", "concise", *FOLDERS]
    limit = ["--config", f"lint.mccabe.max-complexity = {MAX_COMPLEXITY}"]
    done = subprocess.run([*command, *limit], cwd=ROOT, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if "C901" in line]


def cycles() -> list[str]:
    """Groups of packages of medallion that import each other, directly or by way of others."""
    import grimp
    from grimp.exceptions import ModuleNotPresent

    graph = grimp.build_graph("medallion")
    packages = sorted(graph.find_children("medallion"))
    circular = []
    for place, first in enumerate(packages):
        for second in packages[place + 1 :]:
            try:
                both = all(
                    graph.chain_exists(importer=a, imported=b, as_packages=True)
                    for a, b in ((first, second), (second, first))
                )
            except (ModuleNotPresent, ValueError):
                continue
            if both:
                circular.append(f"{first} and {second}")
    return circular


def measure() -> list[Row]:
    """All rows, in the order in which they are printed."""
    sizes: Counter[str] = Counter()
    long_lists: list[str] = []
    dialect: Counter[str] = Counter()
    for path in modules():
        text = path.read_text(encoding="utf-8")
        name, tree = str(path.relative_to(ROOT)), ast.parse(text)
        sizes[name] = text.count("\n")
        dialect.update(word for word in names_in(tree) if word in DIALECT)
        long_lists += [
            f"{name}:{function.lineno} {function.name} ({parameters(function)})"
            for function in functions(tree)
            if parameters(function) > MAX_PARAMETERS and "cli" not in path.parts and path.stem != "cli"
        ]
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = (document.read_text(encoding="utf-8") for document in documents)
    words = sum(len(re.findall(r"\w+", text)) for text in texts if GENERATED not in text)
    large = [f"{name} ({lines})" for name, lines in sizes.most_common() if lines > MAX_LINES]
    complex_functions, circular = too_complex(), cycles()
    now: tuple[tuple[int, list[str]], ...] = (
        (len(circular), circular),
        (len(large), large),
        (len(long_lists), long_lists),
        (len(complex_functions), complex_functions),
        (dialect.total(), [f"{word} {count}" for word, count in dialect.most_common()]),
        (words, []),
    )
    return [Row(what, count, before, worst) for (what, before), (count, worst) in zip(BEFORE.items(), now, strict=True)]


def main() -> None:
    """Print the rows, each with the places that are worst."""
    print(f"{'':55}{'now':>8}{'before':>8}")
    for row in measure():
        print(f"{row.what:55}{row.now:>8,}{row.before:>8,}")
        for place in row.worst[:12]:
            print(f"    {place}")


if __name__ == "__main__":
    main()
