#!/usr/bin/env bash
# Packs programs and jobs into the Debian package capstan_VERSION_ARCHITECTURE.deb.
# Usage: deploy/package/pack_deb.sh --output=DIR FILE...
#
# FILE is a program or a job (*.textproto). One of the programs is `capstan`, whose version is that
# of the package. A program is stripped and goes to /usr/bin. A job goes to /usr/share/capstan/jobs,
# with its data. Manual pages are made from --help (man_page.py). The package depends on the
# packages of the shared libraries here. The same files give the same bytes: all are from the time
# SOURCE_DATE_EPOCH, or from 2000 if that is not set.
set -euo pipefail

here="$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=deploy/bundle/job_data.sh
source "${here}/../bundle/job_data.sh"

fail() {
  echo "pack_deb: $1" >&2
  exit 1
}

output=
capstan=
programs=()
jobs=()
for argument in "$@"; do
  case "${argument}" in
    --output=?*) output="${argument#*=}" ;;
    --*) fail "expected --output=DIR or a file, got ${argument}" ;;
    *.textproto) jobs+=("${argument}") ;;
    *) programs+=("${argument}") ;;
  esac
  [[ "${argument##*/}" != capstan ]] || capstan="$(realpath "${argument}")"
done
[[ -n "${output}" ]] || fail "expected --output=DIR, got none"
[[ -n "${capstan}" ]] || fail "expected the program capstan among the files, got none"
for file in "${programs[@]}" "${jobs[@]}"; do
  [[ -f "${file}" ]] || fail "expected a program or a job, but there is no file ${file}"
done
for tool in dpkg-deb dpkg-shlibdeps python3 strip; do
  command -v "${tool}" >/dev/null || fail "expected the program ${tool}; install it (deploy/setup.sh)"
done
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-946684800}" LC_ALL=C
version="$("${capstan}" --version)" || fail "expected a version of ${capstan}, got none"
version="${version##* }"
architecture="$(dpkg --print-architecture)"

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
root="${scratch}/debian/capstan"  # as dpkg-shlibdeps expects it
mkdir -p "${root}/DEBIAN"

# manual NAME COMMAND...: writes the manual page NAME of what the command prints.
manual() {
  local name="$1" page="${root}/usr/share/man/man1/$1.1"
  shift
  "$@" >"${scratch}/help" || fail "expected a help text, but this failed: $*"
  mkdir -p "${page%/*}"
  python3 "${here}/man_page.py" "${name}" "${version}" <"${scratch}/help" >"${page}"
  gzip --best --no-name "${page}"
}

add_programs() {
  local program name
  for program in "${programs[@]}"; do
    name="${program##*/}"
    install -D -m 755 "${program}" "${root}/usr/bin/${name}"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "${root}/usr/bin/${name}"
    manual "${name}" "${program}" --help
  done
  for name in $("${capstan}" --help | sed -nE 's/^  capstan ([a-z]+) .*/\1/p' | sort --unique); do
    [[ "${name}" == help ]] || manual "capstan-${name}" "${capstan}" "${name}" --help
  done
}

add_completion() {
  local folder="${root}/usr/share/bash-completion/completions" program
  install -D -m 644 "${here}/completion.bash" "${folder}/capstan"
  for program in "${programs[@]##*/}"; do
    [[ "${program}" == capstan ]] || ln -s capstan "${folder}/${program}"
  done
}

add_jobs() {
  local folder="${root}/usr/share/capstan/jobs" job
  for job in "${jobs[@]}"; do
    install -D -m 644 "${job}" "${folder}/${job##*/}"
    pack_job_data "${folder}/${job##*/}" "${job}"
  done
}

# Prints the packages of the programs' shared libraries, with their versions.
dependencies() {
  printf 'Source: capstan\n\nPackage: capstan\nArchitecture: any\n' >"${scratch}/debian/control"
  (cd "${scratch}" && dpkg-shlibdeps --warnings=1 -O debian/capstan/usr/bin/*) | sed -n 's/^shlibs:Depends=//p'
}

write_control() {
  local depends
  depends="$(dependencies)" || fail "expected shared libraries of Debian packages; see above"
  [[ -n "${depends}" ]] || fail "expected programs with shared libraries, got none"
  (cd "${root}" && find usr -type f -print0 | sort --zero-terminated | xargs -0 md5sum) \
    >"${root}/DEBIAN/md5sums"
  cat >"${root}/DEBIAN/control" <<TEXT
Package: capstan
Version: ${version}
Architecture: ${architecture}
Maintainer: Capstan's developers <capstan@localhost>
Installed-Size: $(du --summarize --apparent-size --block-size=1024 "${root}/usr" | cut -f 1)
Depends: ${depends}
Suggests: bash-completion, man-db, openssh-client
Section: science
Priority: optional
Description: parameter server for distributed training
 Capstan trains models on a parameter server. Servers hold the parameters.
 Workers pull them, compute gradients and push the gradients, under BSP, SSP
 or asynchronous consistency.
 .
 Begin with: capstan run, and capstan help.
TEXT
}

add_programs
add_completion
add_jobs
write_control
chmod --recursive u=rwX,go=rX "${root}"
find "${root}" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +
mkdir -p "${output}"
package="${output}/capstan_${version}_${architecture}.deb"
dpkg-deb --root-owner-group --threads-max=1 --build "${root}" "${scratch}/capstan.deb" >/dev/null
mv "${scratch}/capstan.deb" "${package}"
echo "${package}: $(($(stat --format=%s "${package}") / 1024)) KiB, $(find "${root}/usr" -type f | wc -l) files"
