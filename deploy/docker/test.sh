#!/usr/bin/env bash
# Builds the image with buildah, on a Debian that debootstrap makes, and does what README.md says with
# it. Takes a minute, and half a minute more when it makes that Debian, which it keeps for the next
# time. The last line is "N passed, N failed". Needs root, and installs what it needs from Debian.
# Usage: deploy/docker/test.sh [--bundle=FILE.tar.gz]
#   --bundle=FILE   the archive to put into the image; deploy/bundle.sh makes one unless given
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "${repository}"

fail() {
  echo "docker test: $1" >&2
  echo "0 passed, 1 failed"
  exit 1
}

bundle=
case "${1:-}" in
  --bundle=?*) bundle="$(realpath "${1#*=}")" ;;
  '') ;;
  *) fail "expected nothing or --bundle=FILE.tar.gz, got $1" ;;
esac
[[ -z "${bundle}" || -f "${bundle}" ]] || fail "expected an archive, but there is no ${bundle}"
[[ ${EUID} -eq 0 ]] || fail "expected to be root, which containers need; use sudo"

scratch="$(mktemp -d)"
context="${scratch}/repository"
state="${scratch}/state"
storage=(--root="${scratch}/storage" --runroot="${scratch}/run" --storage-driver=vfs)
network="capstan-docker-test-$$"  # a namespace
finish() {
  local container
  for container in $(runc --root="${state}/runc" list --quiet 2>/dev/null); do
    runc --root="${state}/runc" delete --force "${container}"
  done
  ip netns delete "${network}" 2>/dev/null || true
  rm -rf --one-file-system "${scratch}"
}
trap finish EXIT
# shellcheck source=deploy/checks.sh
source deploy/checks.sh

install_packages() {
  local package missing=()
  for package in buildah ca-certificates debootstrap iproute2 python3-yaml runc wget "$@"; do
    [[ "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "${package}" 2>/dev/null)" == ii* ]] ||
      missing+=("${package}")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  export DEBIAN_FRONTEND=noninteractive
  if ! apt-get --quiet --yes update ||
    ! apt-get --quiet --yes install --no-install-recommends "${missing[@]}"; then
    fail "cannot install ${missing[*]}; see above"
  fi
}

# Those who call Docker are not root: neither here nor in the containers with their ids.
id() { echo 20000; }

# The folder that an image is built in: what a clone of the repository has, as far as it is needed.
make_context() {
  mkdir "${context}"
  cp --recursive --parents .dockerignore deploy/{bundle,docker,jobs,compose.yaml,setup.sh} "${context}"
  if [[ -n "${bundle}" ]]; then
    cp "${bundle}" "${context}/capstan.tar.gz"
  elif ! deploy/setup.sh build || ! deploy/bundle.sh --output="${context}/capstan.tar.gz"; then
    fail "cannot build the programs; see above"
  fi
  tar --extract --file="${context}/capstan.tar.gz" --directory="${scratch}"
  chown --recursive "$(id -u):$(id -g)" "${context}"
}

# Makes the image debian:12-slim.
import_debian() {
  local base
  if ! base="$(tests/package/new_debian.sh)"; then
    apt-get --quiet --yes update || fail "apt-get update failed; see above"
    base="$(tests/package/new_debian.sh)" || fail "cannot make a Debian: ${base}"
  fi
  mkdir "${scratch}/base"
  ln "${base}" "${scratch}/base/base.tar" 2>/dev/null || cp "${base}" "${scratch}/base/base.tar"
  printf 'FROM scratch\nADD base.tar /\n' >"${scratch}/base/Dockerfile"
  buildah "${storage[@]}" bud --tag=docker.io/library/debian:12-slim "${scratch}/base" ||
    fail "cannot import Debian; see above"
}

# Does what Docker's command does, in the network namespace of `inside`.
inside=()
docker() {
  case "$1" in
    build) buildah "${storage[@]}" bud --isolation=chroot --pull-never "${@:2}" ;;
    images) buildah "${storage[@]}" images "${@:2}" ;;
    *) "${inside[@]}" /usr/bin/python3 "${repository}/deploy/docker/containers.py" "${state}" "$@" ;;
  esac
}

# Unpacks the image of this name, for `docker run`, to the folder ${state}.
unpack() {
  local container
  rm -rf --one-file-system "${state}"
  mkdir "${state}"
  container="$(buildah "${storage[@]}" from --pull-never "$1")"
  buildah "${storage[@]}" inspect --type=image "$1" >"${state}/image.json"
  cp --archive "$(buildah "${storage[@]}" mount "${container}")" "${state}/rootfs"
  buildah "${storage[@]}" rm "${container}" >/dev/null
}

# from_readme PATTERN [SED SCRIPT]: prints the one command of README.md with this part, after the
# change.
used_commands="${scratch}/used_commands"
from_readme() {
  local found
  found="$(readme_commands | grep --fixed-strings -e "$1")"
  [[ "$(wc -l <<<"${found}")" == 1 ]] ||
    { echo "expected one command of README.md with $1, got: ${found}" >&2 && return 1; }
  echo "${found}" >>"${used_commands}"
  sed "${2:-}" <<<"${found}"
}

# Runs that command.
run_from_readme() {
  local command
  command="$(from_readme "$@")" || return 1
  echo "+ ${command}"
  eval "${command}"
}

# The commands in blocks of README.md, up to what has not been tried.
readme_commands() {
  # shellcheck disable=SC2016
  sed -n '/^## Not tried/q; /^```/,/^```/{/^```/d; /^ /d; s/ *# .*//; /./p}' deploy/docker/README.md
}

# wait_until COMMAND...: whether the command succeeds in time. The machine may be busy.
wait_until() {
  local end=$((SECONDS + 300))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

image_value() { python3 -c "import json; print(json.load(open('${state}/image.json'))['OCIv1']['config']$1)"; }

label_is() { [[ "$(image_value "['Labels']['org.opencontainers.image.$1']")" == "$2" ]]; }

has_labels() {
  label_is title Capstan && label_is revision unknown &&
    label_is version "$("${scratch}/capstan/bin/capstan" --version | sed 's/.* //')" &&
    [[ -n "$(image_value "['Labels']['org.opencontainers.image.description']")" ]]
}

user_is_not_root() { [[ "$(image_value "['User']")" == 10001:10001 ]]; }

nobody_gains_rights() { [[ -z "$(find "${state}/rootfs" -perm /6000)" ]]; }

# Only /work and /tmp belong to the image's user, or may be written by all.
only_work_may_be_written() {
  local found
  found="$(cd "${state}/rootfs" && find . ! -type l \( ! -user root -o -perm /022 \) | sort)"
  [[ "${found}" == $'./tmp\n./work' ]] || { echo "${found}" && return 1; }
}

size_is_small() {
  local bytes
  bytes="$(find "${state}/rootfs" -type f -printf '%s\n' | awk '{ bytes += $1 } END { print bytes }')"
  echo "${bytes} bytes"
  ((bytes < 120 * 1048576 && bytes > 10 * 1048576))
}

# Each library is needed by a program or a library; UCX loads its modules by their names.
# libcapstan.so is for the programs of others.
all_libraries_are_needed() {
  local file needed
  needed="$(find "${state}"/rootfs/{usr,opt/capstan/{bin,lib}} -type f -exec \
    readelf --dynamic --program-headers {} + | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p; s|.*program interpreter: .*/(.*)\]|\1|p')"
  while read -r file; do
    grep --quiet --line-regexp --fixed-strings "${file##*/}" <<<"${needed}" ||
      { echo "nothing needs ${file}" && return 1; }
  done < <(find "${state}/rootfs" -name '*.so*' ! -path '*/ucx/*' ! -name libcapstan.so)
  [[ "$(wc -l <<<"${needed}")" -gt 100 ]]
}

list_of_packages_is_right() {
  local output
  output="$(python3 "${repository}/tests/bundle/check_spdx.py" "${state}/rootfs" \
    "$("${scratch}/capstan/bin/capstan" --version)")"
  echo "${output}"
  grep --quiet '^usr/lib/x86_64-linux-gnu/libc.so.6: libc6 2\.' <<<"${output}"
  grep --quiet '^opt/capstan/lib/libgrpc.so.29: libgrpc29 1\.' <<<"${output}"
}

each_program_prints_its_version() {
  local program
  for program in capstan capstan_coordinator capstan_server capstan_worker; do
    [[ "$(docker run --rm capstan "${program}" --version)" == "${program} "*.*.* ]]
  done
}

# The value of a field of a summary.
summary() { sed -nE "s/^  \"$2\": \"?([^\"]*[^\",])\"?,?$/\1/p" "$1"; }

is_accurate() { awk "BEGIN { exit !($(summary "$1" test_accuracy) >= 0.95) }"; }

has_hash() { [[ -n "${hash}" && "$(summary "$1" parameters_xxh3)" == "${hash}" ]]; }

trains_with_read_only_root() {
  run_from_readme '--tmpfs=/work capstan capstan run' >"${scratch}/output"
  cat "${scratch}/output"
  grep --extended-regexp 'test accuracy +9[5-9]\.' "${scratch}/output"
  grep --fixed-strings "${hash}" "${scratch}/output"
}

root_cannot_be_written() {
  local output
  if output="$(docker run --rm --read-only capstan capstan run 2>&1)"; then return 1; fi
  grep 'expected to make the folder .*Read-only file system' <<<"${output}"
}

trains_into_a_folder_of_the_host() {
  run_from_readme '--output=digits.safetensors'
  is_accurate runs/*/summary.json
  has_hash runs/*/summary.json
  "${scratch}/capstan/bin/capstan" evaluate digits.safetensors
}

ends_when_it_is_asked_to() {
  local run exit_code=0
  docker run --rm --name=long --tmpfs=/work capstan capstan run --epochs=100000 &
  run=$!
  wait_until grep 'step  *[1-9]' "${scratch}/log"
  docker stop long
  wait "${run}" || exit_code=$?
  echo "exit code ${exit_code}"
  ((exit_code == 130))
}

# Its status is asked for, and its coordinator is lost, before the last worker starts, so that the job has
# not ended.
compose_trains() {
  local up service
  mkdir "${state}/held"
  touch "${state}/held/worker-1"
  run_from_readme 'compose.yaml up' >"${scratch}/up.log" 2>&1 &
  up=$!
  wait_until run_from_readme 'capstan status'
  runc --root="${state}/runc" kill capstan-coordinator-1 KILL
  rm "${state}/held/worker-1"
  wait "${up}" || { cat "${scratch}/up.log" && return 1; }
  for service in keys coordinator server-0 server-1 worker-0 worker-1; do
    grep --line-regexp "capstan-${service}-1 exited with code 0" "${scratch}/up.log"
  done
  grep 'coordinator  | .* this coordinator has taken over in phase REGISTERING' "${scratch}/up.log"
  is_accurate "${state}/volumes/work/summary.json"
  has_hash "${state}/volumes/work/summary.json"
}

keys_are_private() {
  [[ "$(stat --format='%u %a' "${state}/volumes/work/keys/token")" == "10001 600" ]]
}

compose_leaves_nothing() {
  run_from_readme 'compose.yaml down'
  [[ ! -e "${state}/volumes/work" ]]
}

# All in a network of their own, so that no port of this machine is taken.
trains_on_the_network_of_the_host() {
  local coordinator members=() port member
  run_from_readme 'capstan keys' 's/HOST,THIS_HOST/localhost/'
  ip netns add "${network}"
  ip -n "${network}" link set lo up
  inside=(nsenter "--net=/run/netns/${network}")
  run_from_readme capstan_coordinator >coordinator.log &
  coordinator=$!
  for port in 4001 4002; do
    run_from_readme capstan_server "s/THIS_HOST/localhost/; s/HOST/localhost/; s/4001/${port}/" &
    members+=($!)
    run_from_readme capstan_worker 's/HOST/localhost/' &
    members+=($!)
  done
  for member in "${coordinator}" "${members[@]}"; do
    wait "${member}"
  done
  grep --fixed-strings "\"parameters_xxh3\": \"${hash}\"" coordinator.log
}

all_commands_of_the_readme_were_used() {
  local unused expected
  expected="$(sed -n '/^docker build.*REVISION/p; /^deploy\/bundle.sh/p; /^sudo /p' deploy/docker/README.md)"
  unused="$(readme_commands | grep --invert-match --fixed-strings --line-regexp --file="${used_commands}")"
  [[ "${unused}" == "${expected}" ]] || { echo "${unused}" && return 1; }
}

# With an empty image in place of NVIDIA's.
builds_with_cuda() {
  diff <(sed '1,/^# The same as/d' deploy/docker/Dockerfile) \
    <(sed '1,/^# The same as/d' deploy/docker/Dockerfile.cuda)
  mkdir -p "${scratch}/cuda/cuda-13.0"
  echo 'FROM scratch
    COPY cuda-13.0 /usr/local/cuda-13.0' >"${scratch}/cuda/Dockerfile"
  docker build --tag="$(sed -n 's/^ARG CUDA=//p' deploy/docker/Dockerfile.cuda)" "${scratch}/cuda"
  docker build --build-arg=BUNDLE=capstan.tar.gz --file=deploy/docker/Dockerfile.cuda \
    --tag=capstan-cuda .
}

packages=()
[[ -n "${bundle}" ]] || packages=(patchelf)
install_packages "${packages[@]}" </dev/null
make_context </dev/null
import_debian </dev/null
# As a container, it has no variables by which OpenBLAS would choose other code.
(cd "${scratch}" && env --ignore-environment capstan/bin/capstan run --job=capstan/jobs/digits.textproto --run_dir=here) \
  >"${scratch}/here.log" 2>&1 || fail "capstan run fails outside: $(tail "${scratch}/here.log")"
hash="$(summary "${scratch}/here/summary.json" parameters_xxh3)"

cd "${context}"
check "the image is built" run_from_readme BUNDLE=
((failed == 0)) || fail "there is no image; see above"
unpack capstan
check "its size is printed" run_from_readme 'docker images'
tail --lines=1 "${scratch}/log"
check "it has less than 120 MiB" size_is_small
check "its user is not root" user_is_not_root
check "it has labels, and the version is that of its programs" has_labels
check "no program gives rights to its caller" nobody_gains_rights
check "only /work and /tmp may be written" only_work_may_be_written
check "all libraries are needed" all_libraries_are_needed
check "the list names all files, and the package of each library" list_of_packages_is_right
check "each program prints its version" each_program_prints_its_version
check "digits: accuracy and hash of capstan run outside, with a read-only root" \
  trains_with_read_only_root
check "a read-only root cannot be written" root_cannot_be_written
check "digits in a folder of the host, as another user" trains_into_a_folder_of_the_host
check "a job ends when it is asked to" ends_when_it_is_asked_to
check "compose: all end well, also if the coordinator is lost; accuracy and hash of capstan run outside" \
  compose_trains
check "compose: the keys are for the user of the image alone" keys_are_private
check "compose: nothing is left" compose_leaves_nothing
check "digits by hand, on the network of the host" trains_on_the_network_of_the_host
check "the image with CUDA is built, but for compiling" builds_with_cuda
check "all commands of the README were run, but those that compile" \
  all_commands_of_the_readme_were_used
print_counts
