#!/usr/bin/env bash
# Makes the root folder of Capstan's image: the bundle of deploy/bundle.sh, and what it needs of this
# Debian, which are the libraries of C and C++. There is no shell in it.
# Usage: deploy/docker/make_root.sh BUNDLE ROOT   BUNDLE: the unpacked archive
#
# capstan.spdx.json in ROOT lists all files, and the Debian packages that libraries come from.
set -euo pipefail

bundle="$1"
root="$2"
scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT

# Prints the libraries outside of the bundle that its programs and libraries load, and the loader.
libraries_outside() {
  find "${bundle}"/bin "${bundle}"/lib -type f -exec ldd {} + |
    sed -nE 's|^\s+(\S+ => )?(/\S+) \(0x[0-9a-f]+\)$|\2|p' | sort --unique |
    while read -r library; do
      [[ "$(realpath "${library}")" == "$(realpath "${bundle}")"/* ]] || echo "${library}"
    done
}

install -d "${root}"/{etc,opt,usr/lib,usr/lib64}
install -d --mode=1777 "${root}/tmp"
# Where programs write. A volume or tmpfs that is mounted here takes over who may write.
install -d --mode=1777 --owner=10001 --group=10001 "${root}/work"
ln -s usr/lib usr/lib64 "${root}"

cp --recursive --no-target-directory "${bundle}" "${root}/opt/capstan"
mv "${root}/opt/capstan/capstan.spdx.json" "${scratch}/bundle.spdx.json"
while read -r library; do
  # /lib is a link to /usr/lib.
  path="usr/${library#/}"
  path="${path/#usr\/usr/usr}"
  install -D --mode=755 "${library}" "${root}/${path}"
  printf '%s\n' "${path}" "${library}"
done < <(libraries_outside) >"${scratch}/origins"

install --mode=644 /etc/os-release /etc/debian_version "${root}/etc"
echo "capstan:x:10001:10001:Capstan:/work:/usr/sbin/nologin" >"${root}/etc/passwd"
echo "capstan:x:10001:" >"${root}/etc/group"
echo "hosts: files dns" >"${root}/etc/nsswitch.conf"

version="$("${root}/opt/capstan/bin/capstan" --version)"
python3 "$(dirname "${BASH_SOURCE[0]}")/../bundle/spdx.py" "${root}" "${scratch}/origins" \
  "${version##* }" opt/capstan "${scratch}/bundle.spdx.json" >"${scratch}/image.spdx.json"
install --mode=644 "${scratch}/image.spdx.json" "${root}/capstan.spdx.json"
