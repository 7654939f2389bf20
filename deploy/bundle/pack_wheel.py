#!/usr/bin/env python3
"""Packs the package in FOLDER/capstan into a wheel in the folder OUTPUT. The same files give the
same bytes.

Usage: pack_wheel.py FOLDER VERSION OUTPUT
"""

import base64
import hashlib
import os
import pathlib
import sys
import zipfile

# As in files of the distribution capstan-ps. PyPI's `capstan` is another project.
NAME = "capstan_ps"
TAG = "py3-none-manylinux_2_34_x86_64"

METADATA = """Metadata-Version: 2.1
Name: capstan-ps
Version: {version}
Summary: Train a model on parameter servers
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == "torch"
"""

WHEEL = f"""Wheel-Version: 1.0
Generator: capstan
Root-Is-Purelib: false
Tag: {TAG}
"""

ENTRY_POINTS = """[console_scripts]
capstan = capstan.__main__:main
"""


def files_of(folder, version):
    """From paths in the wheel to their bytes, and whether they are programs."""
    files = {}
    for path in sorted((folder / "capstan").rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = (path.read_bytes(), os.access(path, os.X_OK))
    info = f"{NAME}-{version}.dist-info"
    for name, text in (("METADATA", METADATA.format(version=version)), ("WHEEL", WHEEL),
                       ("entry_points.txt", ENTRY_POINTS)):
        files[f"{info}/{name}"] = (text.encode(), False)
    files[f"{info}/RECORD"] = (record_of(files, f"{info}/RECORD").encode(), False)
    return files


def record_of(files, own_path):
    """Each file's SHA-256 and size."""
    lines = []
    for path, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    return "\n".join([*lines, f"{own_path},,", ""])


def main(folder, version, output):
    pathlib.Path(output).mkdir(parents=True, exist_ok=True)
    wheel = pathlib.Path(output) / f"{NAME}-{version}-{TAG}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, is_program) in files_of(pathlib.Path(folder), version).items():
            entry = zipfile.ZipInfo(path)  # of 1980-01-01
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content)
    print(f"{wheel}: {wheel.stat().st_size / 1048576:.1f} MiB")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("pack_wheel: expected FOLDER VERSION OUTPUT")
    main(*sys.argv[1:])
