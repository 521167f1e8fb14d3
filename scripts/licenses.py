"""Prints the licenses of what is linked into a program, with their texts: licenses.py PACKAGE TARGET

The crates by cargo, with the files in their sources, and Rust's standard library by the papers of its toolchain.
"""

import html
import json
import pathlib
import re
import subprocess
import sys

PAPER = re.compile(r"(licen[sc]e|copying|copyright|notice|unlicense)", re.IGNORECASE)

# Sources in a crate that no build of adit compiles, and a license of which adit uses the alternative.
UNUSED = {"libbpf-rs": ("LICENSE.LGPL-2.1",), "libbpf-sys": ("elfutils", "zlib", "LICENSE.LGPL-2.1")}

# Parts of the standard library for other systems.
FOREIGN = re.compile(r"dlmalloc|fortanix|hermit|moto|r-efi|vex|wasi|windows|wit-")


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked(package, target):
    """The crates of registries that the package is linked with."""
    metadata = json.loads(said("cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"))
    packages = {of["id"]: of for of in metadata["packages"]}
    nodes = {of["id"]: of for of in metadata["resolve"]["nodes"]}
    wanted = [key for key, of in packages.items() if of["name"] == package]
    found = set()
    while wanted:
        key = wanted.pop()
        if key not in found:
            found.add(key)
            wanted += [of["pkg"] for of in nodes[key]["deps"] if any(kind["kind"] is None for kind in of["dep_kinds"])]
    crates = [packages[key] for key in found if packages[key]["source"]]
    return sorted(crates, key=lambda of: (of["name"], of["version"]))


def papers(crate):
    """The texts in the sources of a crate, those of foreign code in it too."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    unused = UNUSED.get(crate["name"], ())
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        if PAPER.match(file.name) and file.suffix not in (".rs", ".c", ".h") and file.is_file() and not set(parts) & set(unused):
            yield file.read_text(errors="replace")


def standard_library():
    """Name, license and texts of each part of Rust's standard library."""
    folder = pathlib.Path(said("rustc", "--print", "sysroot").strip()) / "share/doc/rust"
    page = (folder / "COPYRIGHT-library.html").read_text()
    version = said("rustc", "--version").split()[1]
    yield f"std {version}", "MIT OR Apache-2.0", [(folder / "licenses" / f"{of}.txt").read_text() for of in ("MIT", "Apache-2.0")]
    for part in page.split("<h3>")[1:]:
        name, version = part[: part.index("</h3>")].removeprefix("\N{PACKAGE} ").rsplit("-", 1)
        if FOREIGN.match(name):
            continue
        terms = re.search(r"<b>License:</b> (.*?)</p>", part).group(1)
        texts = re.findall(r"<pre>(.*?)</pre>", part, re.DOTALL)
        yield f"{name} {version} (in std)", html.unescape(terms), [html.unescape(text) for text in texts]


def main(package, target):
    parts = [(f"{of['name']} {of['version']}", of["license"], list(papers(of))) for of in linked(package, target)]
    parts += standard_library()
    numbers, texts = {}, []
    print(f"The program {package} contains these crates. The numbers are those of the texts below. Of licenses with OR any one applies.\n")
    for name, terms, own in parts:
        if not own:
            sys.exit(f"{name} has no text of its license ({terms})")
        which = set()
        for text in own:
            words = " ".join(text.split())
            if words not in numbers:
                texts.append(text)
                numbers[words] = len(texts)
            which.add(numbers[words])
        print(f"{name}: {terms}: {', '.join(f'[{number}]' for number in sorted(which))}")
    for number, text in enumerate(texts, 1):
        lines = "\n".join(line.rstrip() for line in text.expandtabs().splitlines()).strip("\n")
        print(f"\n[{number}] {'-' * 70}\n\n{lines}")


main(*sys.argv[1:])
