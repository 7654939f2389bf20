#!/usr/bin/env bash
# Installs the Debian packages that Capstan needs. Does nothing when all are installed.
# Usage: deploy/setup.sh [build]; `build` leaves out the packages for tests, checks and bundles.
set -euo pipefail

# To build the programs and to train.
packages=(
  bazel-bootstrap bazel-rules-java bazel-rules-proto build-essential
  libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libgoogle-glog-dev libhwy-dev libopenblas-dev libxxhash-dev zlib1g-dev nlohmann-json3-dev
  libucx-dev libssl-dev prometheus-cpp-dev
  libjs-d3
)
# For the tests and their benchmarks, the checks of deploy/presubmit.sh, and deploy/bundle.sh.
packages_beyond_build=(
  libbenchmark-dev libgmock-dev libgtest-dev
  python3-grpcio python3-numpy python3-protobuf python3-torch python3-venv
  chromium
  iproute2 iperf3 tshark prometheus
  libgloo-dev libopenmpi-dev openmpi-bin
  git clang clang-format clang-tidy libclang-rt-dev
  patchelf debootstrap
  slurm-wlm munge
  openssh-client openssh-server
  buildah runc python3-yaml
)
if [[ $# -eq 0 ]]; then
  packages+=("${packages_beyond_build[@]}")
elif [[ $# -ne 1 || "$1" != build ]]; then
  echo "setup: expected nothing, which installs all packages, or build; got $*" >&2
  exit 2
fi

is_installed() {
  [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$1" 2>/dev/null)" == ii* ]]
}

# Prints the reason and a remedy, and ends.
give_up() {
  echo "setup: $1" >&2
  echo "setup: Capstan needs the following packages (Debian 12 names): $2" >&2
  exit 1
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  give_up "expected Debian or Ubuntu, but there is no apt-get here; install them by hand" \
    "${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  is_installed "${package}" || missing+=("${package}")
done
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [[ ${EUID} -ne 0 ]]; then
  # sudo asks for a password only on a terminal.
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif command -v sudo >/dev/null && [[ -t 0 ]]; then
    as_root=(sudo)
  else
    give_up "expected to be root, or to have sudo without a password or at a terminal; run as root: apt-get install ${missing[*]}" \
      "${missing[*]}"
  fi
fi

echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes)
"${apt_get[@]}" update </dev/null || give_up "apt-get update failed; see above" "${missing[*]}"
"${apt_get[@]}" install --no-install-recommends "${missing[@]}" </dev/null ||
  give_up "apt-get install failed; see above" "${missing[*]}"
echo "setup: done"
