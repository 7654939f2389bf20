# shellcheck shell=bash
# Makes a root folder of this machine's own release of Debian. Sourced by tests. Needs root.

PATH="${PATH}:/usr/sbin:/sbin"
release="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
# The lines for it, as /etc/apt/sources.list has them.
# shellcheck disable=SC2016
sources="$(apt-get indextargets --format 'deb $(REPO_URI) $(CODENAME) $(COMPONENT)' \
  'Created-By: Packages' "Codename: ${release}" | sort --unique)"
mirror="$(head -n 1 <<<"${sources}" | cut -d ' ' -f 2)"
proxy="$(apt-config dump --format '%v' Acquire::http::Proxy)"
[[ -z "${proxy}" ]] || export http_proxy="${proxy}"

# Prints why make_debian cannot work here, or nothing.
why_no_debian() {
  if [[ "${EUID}" != 0 ]]; then
    echo "this is not root"
  elif ! command -v debootstrap >/dev/null; then
    echo "there is no debootstrap (deploy/setup.sh installs it)"
  elif [[ -z "${mirror}" ]]; then
    echo "apt knows no packages of ${release}; call apt-get update"
  elif ! wget --quiet --spider --timeout=20 --tries=2 "${mirror}dists/${release}/Release"; then
    echo "${mirror} cannot be reached"
  elif ! unshare --mount true; then
    echo "root may not mount anything here"
  fi
}

# make_debian FOLDER LOG
make_debian() {
  # Mounts end with the namespace, so nothing of this machine is below a folder that is removed.
  unshare --mount --propagation=private \
    debootstrap --variant=minbase "${release}" "$1" "${mirror}" >"$2" 2>&1 ||
    { tail "$2" && return 1; }
  echo "${sources}" >"$1/etc/apt/sources.list"
  [[ -z "${proxy}" ]] || echo "Acquire::http::Proxy \"${proxy}\";" >"$1/etc/apt/apt.conf.d/proxy"
  echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/unsafe-io"
}
