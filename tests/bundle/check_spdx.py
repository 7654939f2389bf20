#!/usr/bin/env python3
"""Checks the capstan.spdx.json of a bundle or an image against SPDX 2.3 and the files there.

Usage: check_spdx.py FOLDER VERSION   VERSION as `capstan --version` prints it

Prints "FILE: PACKAGE VERSION" for each file that comes from a package.
"""

import hashlib
import json
import os
import re
import sys

LIST_NAME = "capstan.spdx.json"
DOCUMENT_FIELDS = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
                   "creationInfo", "packages", "files", "relationships"}
PACKAGE_FIELDS = {"SPDXID", "name", "versionInfo", "downloadLocation", "filesAnalyzed",
                  "licenseConcluded", "licenseDeclared", "copyrightText"}
FILE_FIELDS = {"SPDXID", "fileName", "checksums", "licenseConcluded", "copyrightText"}


def expect(is_right, text):
    if not is_right:
        sys.exit(f"check_spdx: {text}")


def expect_fields(fields, one):
    expect(fields <= one.keys(), f"expected the fields {sorted(fields)}, got {one}")
    for name, value in one.items():
        expect(value not in ("", [], None), f"expected a value of {name}, got none: {one}")


def check_document(document):
    expect_fields(DOCUMENT_FIELDS, document)
    expect(document["spdxVersion"] == "SPDX-2.3", "expected SPDX-2.3")
    expect(document["dataLicense"] == "CC0-1.0", "expected CC0-1.0, which SPDX prescribes")
    expect(document["SPDXID"] == "SPDXRef-DOCUMENT", "expected the document's SPDXID")
    expect(re.fullmatch(r"https://[^#\s]+", document["documentNamespace"]),
           "expected a URI as the namespace")
    info = document["creationInfo"]
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", info["created"]), "expected a time")
    expect(all(re.match("(Tool|Person|Organization): .", one) for one in info["creators"]),
           f"expected creators, got {info['creators']}")


def check_file(bundle, file):
    expect_fields(FILE_FIELDS, file)
    with open(os.path.join(bundle, file["fileName"]), "rb") as content:
        content = content.read()
    sums = {one["algorithm"]: one["checksumValue"] for one in file["checksums"]}
    for algorithm in ("SHA1", "SHA256"):
        expected = hashlib.new(algorithm, content).hexdigest()
        expect(sums[algorithm] == expected, f"{file['fileName']}: expected {algorithm} {expected}, "
               f"got {sums[algorithm]}")


def check_files(bundle, files):
    there = {"./" + os.path.relpath(os.path.join(folder, name), bundle)
             for folder, _, names in os.walk(bundle) for name in names} - {"./" + LIST_NAME}
    listed = [file["fileName"] for file in files]
    expect(len(listed) == len(set(listed)), "expected each file once")
    expect(there == set(listed), f"expected the files that are there, not {there ^ set(listed)}")
    for file in files:
        check_file(bundle, file)


def check_package(package):
    expect_fields(PACKAGE_FIELDS, package)
    if package["name"] == "capstan":
        return
    expect(not package["filesAnalyzed"], f"expected filesAnalyzed to be false: {package}")
    (reference,) = package["externalRefs"]
    expect(reference["referenceCategory"] == "PACKAGE-MANAGER", f"{reference}")
    expect(reference["referenceType"] == "purl", f"{reference}")
    expect(re.fullmatch(r"pkg:deb/[a-z]+/[a-z0-9.%B-]+@[A-Za-z0-9.%:~-]+\?arch=\w+&distro=[\w.-]+",
                        reference["referenceLocator"]), f"expected a purl, got {reference}")


def check_capstan(document, version):
    (capstan,) = [one for one in document["packages"] if one["name"] == "capstan"]
    expect(f"capstan {capstan['versionInfo']}" == version, f"expected {version}, got {capstan}")
    sums = sorted(file["checksums"][0]["checksumValue"] for file in document["files"])
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    expect(capstan["packageVerificationCode"]["packageVerificationCodeValue"] == code,
           f"expected the verification code {code}, got {capstan}")
    triples = relations_of(document)
    expect(("SPDXRef-DOCUMENT", "DESCRIBES", capstan["SPDXID"]) in triples, "expected DESCRIBES")
    for file in document["files"]:
        expect((capstan["SPDXID"], "CONTAINS", file["SPDXID"]) in triples,
               f"expected capstan to contain {file}")
    for package in document["packages"]:
        expect(package is capstan or (capstan["SPDXID"], "DEPENDS_ON", package["SPDXID"]) in triples,
               f"expected capstan to depend on {package}")


def relations_of(document):
    return {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
            for one in document["relationships"]}


def check_ids(document):
    ids = [one["SPDXID"] for one in document["packages"] + document["files"] + [document]]
    expect(len(ids) == len(set(ids)), "expected different SPDXIDs")
    for one in ids:
        expect(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one), f"expected an SPDXID, got {one}")
    for one, _, other in relations_of(document):
        expect(one in ids and other in ids, f"expected known SPDXIDs, got {one} and {other}")


def print_origins(document):
    files = {one["SPDXID"]: one["fileName"][len("./"):] for one in document["files"]}
    packages = {one["SPDXID"]: one for one in document["packages"]}
    from_packages = {(files[one], other) for one, kind, other in relations_of(document)
                     if kind == "GENERATED_FROM"}
    for file, package in sorted(from_packages):
        print(f"{file}: {packages[package]['name']} {packages[package]['versionInfo']}")
    libraries = {file for file in files.values()
                 if re.search(r"(^|/)lib(64)?/", file) and not file.endswith("/libcapstan.so")}
    expect({file for file, _ in from_packages} == libraries,
           "expected each library but Capstan's, and nothing else, to come from one package")
    expect(len(from_packages) == len(libraries), "expected one package for each library")


def main(bundle, version):
    with open(os.path.join(bundle, LIST_NAME), encoding="utf-8") as text:
        document = json.load(text)
    check_document(document)
    check_ids(document)
    check_files(bundle, document["files"])
    for package in document["packages"]:
        check_package(package)
    check_capstan(document, version)
    print_origins(document)


if __name__ == "__main__":
    main(*sys.argv[1:])
