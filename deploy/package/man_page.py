#!/usr/bin/env python3
"""Makes a manual page of a program's help on standard input.

Usage: man_page.py NAME VERSION <HELP >NAME.1

HELP has paragraphs, with blank lines in between. "Usage:" begins the synopsis. A line that ends with
":" is the heading of the flags, examples or other lines below it, which are indented. The page is
from the time SOURCE_DATE_EPOCH.
"""

import os
import re
import sys
import time


def escape(text):
    """Text as troff prints it; a hyphen stays one that can be copied into a shell."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def literal(lines):
    """Lines as they are."""
    return "\n".join([".nf", *map(escape, lines), ".fi"])


def flags(lines):
    """Flags, each with its text: "  --name=VALUE" and indented lines below."""
    page = []
    for line in lines:
        if line.startswith("  --"):
            page += [".TP", f".B {escape(line.strip())}"]
        else:
            page.append(escape(line.strip()))
    return "\n".join(page)


class Page:
    """Parts of the page, from paragraphs of the help."""

    def __init__(self):
        self.synopsis = ""
        self.description = []
        self.options = []
        self.others = []

    def add(self, paragraph):
        lines = paragraph.split("\n")
        if lines[0].startswith("Usage:"):
            usages = [line.strip() for line in paragraph[len("Usage:"):].split("\n")]
            self.synopsis = literal([usage for usage in usages if usage])
        elif not lines[0].endswith(":") or not all(line.startswith("  ") for line in lines[1:]):
            (self.options or self.description).append(".PP\n" + escape(" ".join(lines)))
        elif any(line.startswith("  --") for line in lines):
            heading = "" if lines[0] == "Flags:" else f".SS {escape(lines[0][:-1])}\n"
            self.options.append(heading + flags(lines[1:]))
        else:
            self.others.append(f".SH {escape(lines[0][:-1].upper())}\n{literal(lines[1:])}")

    def text(self, name, version, see_also):
        # The first sentence says what it is.
        summary = re.match(r"\.PP\n(.*?)[.:]( |$)", self.description[0]).group(1)
        date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
        parts = [f'.TH {escape(name).upper()} 1 "{date}" "Capstan {version}" "Capstan"',
                 f".SH NAME\n{escape(name)} \\- {summary}",
                 f".SH SYNOPSIS\n{self.synopsis}",
                 ".SH DESCRIPTION", *self.description]
        if self.options:
            parts += [".SH OPTIONS", *self.options]
        parts += self.others
        parts.append(f".SH SEE ALSO\n{see_also}")
        return "\n".join(parts) + "\n"


def main(name, version):
    page = Page()
    for paragraph in re.split(r"\n{2,}", sys.stdin.read().strip("\n")):
        page.add(paragraph)
    others = ["capstan", "capstan_coordinator", "capstan_server", "capstan_worker"]
    see_also = ",\n".join(f".BR {escape(other)} (1)" for other in others if other != name)
    sys.stdout.write(page.text(name, version, see_also))


if __name__ == "__main__":
    main(*sys.argv[1:])
