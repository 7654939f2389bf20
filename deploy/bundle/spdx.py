#!/usr/bin/env python3
"""Lists what a bundle or an image carries, as SPDX 2.3 in JSON, on standard output.

Usage: spdx.py ROOT ORIGINS VERSION [FOLDER BUNDLE_LIST]

ROOT is the bundle's folder, or the image's; VERSION is Capstan's; empty: not known. The file ORIGINS
has two lines for each program and library: its path in ROOT, and the path of the original. An
original that belongs to a Debian package is said to come from it. BUNDLE_LIST is the list of a
bundle that lies in ROOT's FOLDER: it tells where the files there come from. The same files give the
same list.
"""

import hashlib
import json
import os
import subprocess
import sys
import urllib.parse

LIST_NAME = "capstan.spdx.json"
UNKNOWN = "NOASSERTION"
DOCUMENT = "SPDXRef-DOCUMENT"
CAPSTAN = "SPDXRef-Package-capstan"
PACKAGE_FIELDS = ("binary:Package", "Version", "Architecture", "Maintainer", "source:Package",
                  "source:Version")


def files_in(root):
    """The paths of all files, without the list itself."""
    paths = [
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root) for name in names
    ]
    return sorted(path for path in paths if path != LIST_NAME)


def describe_file(root, path, number):
    with open(os.path.join(root, path), "rb") as file:
        content = file.read()
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{path}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
            {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
        ],
        "licenseConcluded": UNKNOWN,
        "licenseInfoInFiles": [UNKNOWN],
        "copyrightText": UNKNOWN,
    }


def read_origins(path):
    """From paths in the bundle to those of the originals."""
    with open(path, encoding="utf-8") as lines:
        names = lines.read().splitlines()
    return dict(zip(names[::2], names[1::2]))


def query(*arguments):
    """The lines of dpkg-query. It fails if it does not know one of several names."""
    if len(arguments) == 1:
        return []
    result = subprocess.run(("dpkg-query",) + arguments, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, check=False, encoding="utf-8")
    return result.stdout.splitlines()


def names_of(path):
    """What Debian may call a file: its links lead elsewhere, and /lib is also /usr/lib."""
    names = {path, os.path.realpath(path)}
    names |= {name[len("/usr"):] for name in names if name.startswith("/usr/lib")}
    names |= {f"/usr{name}" for name in names if name.startswith("/lib")}
    return names


def packages_of(originals):
    """From paths of files to the Debian packages that own them."""
    names = sorted({name for path in originals for name in names_of(path)})
    owners = {}
    for line in query("--search", *names):
        package, separator, path = line.partition(": ")
        if separator and not package.startswith("diversion by"):
            owners[path] = package.split(", ")[0]
    found = {path: [owners[name] for name in sorted(names_of(path)) if name in owners]
             for path in originals}
    return {path: packages[0] for path, packages in found.items() if packages}


def distribution():
    """Such as ("debian", "debian-12")."""
    with open("/etc/os-release", encoding="utf-8") as lines:
        fields = dict(line.rstrip().replace('"', "").split("=", 1) for line in lines if "=" in line)
    return fields["ID"], f"{fields['ID']}-{fields.get('VERSION_ID', '')}".rstrip("-")


def describe_package(line):
    """The package of which dpkg-query has printed PACKAGE_FIELDS."""
    package, version, architecture, maintainer, source, source_version = line.split("\t")
    name = package.partition(":")[0]
    vendor, distro = distribution()
    supplier = maintainer.replace("<", "(").replace(">", ")")
    purl = (f"pkg:deb/{vendor}/{urllib.parse.quote(name)}@"
            f"{urllib.parse.quote(version, safe=':~')}?arch={architecture}&distro={distro}")
    return {
        "SPDXID": f"SPDXRef-Package-{name.replace('+', '-plus')}",
        "name": name,
        "versionInfo": version,
        "supplier": f"Organization: {supplier}",
        "sourceInfo": f"Debian source package {source} {source_version}",
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": purl,
        }],
    }


def packages_of_originals(origins):
    """From paths in ROOT to the packages of their originals, described."""
    owners = packages_of(origins.values())
    lines = query("--show", "--showformat",
                  "\\t".join(f"${{{field}}}" for field in PACKAGE_FIELDS) + "\\n",
                  *sorted(set(owners.values()))) if owners else []
    described = {line.partition("\t")[0].partition(":")[0]: describe_package(line)
                 for line in lines}
    return {path: described[owners[original].partition(":")[0]]
            for path, original in origins.items() if original in owners}


def packages_of_bundle(folder, bundle_list):
    """From paths in ROOT to the packages that the bundle's list names."""
    with open(bundle_list, encoding="utf-8") as text:
        document = json.load(text)
    described = {package["SPDXID"]: package for package in document["packages"]}
    paths = {file["SPDXID"]: os.path.normpath(os.path.join(folder, file["fileName"]))
             for file in document["files"]}
    return {paths[one["spdxElementId"]]: described[one["relatedSpdxElement"]]
            for one in document["relationships"] if one["relationshipType"] == "GENERATED_FROM"}


def verification_code(files):
    """As section 7.9 of SPDX 2.3 has it."""
    sums = sorted(file["checksums"][0]["checksumValue"] for file in files)
    return hashlib.sha1("".join(sums).encode()).hexdigest()


def describe_capstan(version, files):
    capstan = {
        "SPDXID": CAPSTAN,
        "name": "capstan",
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": True,
        "packageVerificationCode": {
            "packageVerificationCodeValue": verification_code(files),
            "packageVerificationCodeExcludedFiles": [f"./{LIST_NAME}"],
        },
        "licenseConcluded": UNKNOWN,
        "licenseInfoFromFiles": [UNKNOWN],
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
    }
    if version:
        capstan["versionInfo"] = version
    return capstan


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def describe(root, sources, version):
    """The document. `sources`: from paths in ROOT to the packages that they come from."""
    files = [describe_file(root, path, i) for i, path in enumerate(files_in(root), start=1)]
    packages = {package["name"]: package for package in sources.values()}
    relations = [relation(DOCUMENT, "DESCRIBES", CAPSTAN)]
    relations += [relation(CAPSTAN, "CONTAINS", file["SPDXID"]) for file in files]
    relations += [relation(CAPSTAN, "DEPENDS_ON", packages[name]["SPDXID"])
                  for name in sorted(packages)]
    for file in files:
        source = sources.get(file["fileName"][len("./"):])
        if source:
            # Not a copy: it looks for its own libraries in the bundle.
            relations.append(relation(file["SPDXID"], "GENERATED_FROM", source["SPDXID"]))
    name = f"capstan-{version}" if version else "capstan"
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{verification_code(files)}",
        "creationInfo": {
            "created": "2000-01-01T00:00:00Z",
            "creators": ["Tool: capstan-bundle"],
            "comment": "The time is always the same, so the same files give the same list.",
        },
        "packages": [describe_capstan(version, files)] + [packages[name] for name in sorted(packages)],
        "files": files,
        "relationships": relations,
    }


def main(arguments):
    if len(arguments) not in (3, 5):
        sys.exit("spdx: expected ROOT ORIGINS VERSION [FOLDER BUNDLE_LIST], got "
                 f"{len(arguments)} arguments")
    root, origins, version = arguments[:3]
    sources = packages_of_originals(read_origins(origins))
    if arguments[3:]:
        sources.update(packages_of_bundle(*arguments[3:]))
    json.dump(describe(root, sources, version), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
