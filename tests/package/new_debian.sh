#!/usr/bin/env bash
# Prints the path of an archive with the root folder of this machine's own release of Debian, without
# manuals. Makes it if the release has changed, and keeps it in ~/.cache/capstan. Several calls at once
# make it once. Needs root.
# Exit code: 77 if this machine does not allow it; then it prints why.
# Usage: new_debian.sh
set -euo pipefail

PATH="${PATH}:/usr/sbin:/sbin"
release="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
# The lines for it, as /etc/apt/sources.list has them.
# shellcheck disable=SC2016
sources="$(apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' \
  'Created-By: Packages' "Codename: ${release}" | sort --unique)"
mirror="$(head -n 1 <<<"${sources}" | cut -d ' ' -f 2)"
proxy="$(apt-config dump --format '%v' Acquire::http::Proxy)"
[[ -z "${proxy}" ]] || export http_proxy="${proxy}"
scratch="$(mktemp -d)"
trap 'rm -rf --one-file-system "${scratch}"' EXIT

why_not() {
  if [[ "${EUID}" != 0 ]]; then
    echo "this is not root"
  elif ! command -v debootstrap >/dev/null; then
    echo "there is no debootstrap (deploy/setup.sh installs it)"
  elif [[ -z "${mirror}" ]]; then
    echo "apt knows no packages of ${release}; call apt-get update"
  elif ! wget --quiet --timeout=20 --tries=2 --output-document="${scratch}/Release" \
    "${mirror}dists/${release}/Release"; then
    echo "${mirror} cannot be reached"
  elif ! unshare --mount true; then
    echo "root may not mount anything here"
  fi
}

# make_debian FOLDER
make_debian() {
  # Mounts end with the namespace, so nothing of this machine is below a folder that is removed.
  unshare --mount --propagation=private \
    debootstrap --variant=minbase "${release}" "$1" "${mirror}" >"${scratch}/log" 2>&1 ||
    { tail "${scratch}/log" >&2 && return 1; }
  echo "${sources}" >"$1/etc/apt/sources.list"
  [[ -z "${proxy}" ]] || echo "Acquire::http::Proxy \"${proxy}\";" >"$1/etc/apt/apt.conf.d/proxy"
  echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/unsafe-io"
}

reason="$(why_not)"
if [[ -n "${reason}" ]]; then
  echo "${reason}"
  exit 77
fi
# A test of Bazel has no home.
cache="$(getent passwd "${EUID}" | cut -d : -f 6)/.cache/capstan"
checksum="$(sha256sum <"${scratch}/Release")"
archive="${cache}/debian-${checksum::16}.tar"
mkdir -p "${cache}"
exec {lock}>"${cache}/debian.lock"
flock "${lock}"
if [[ ! -f "${archive}" ]]; then
  echo "making a new ${release} of ${mirror}" >&2
  make_debian "${scratch}/debian"
  find "${cache}" -name 'debian-*.tar' -mmin +60 -delete  # who uses one opens it at once
  tar --create --file="${cache}/debian.part" --directory="${scratch}/debian" \
    --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/locale/*' --exclude='./usr/share/man/*' .
  mv "${cache}/debian.part" "${archive}"
fi
echo "${archive}"
