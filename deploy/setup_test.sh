#!/usr/bin/env bash
# The packages that setup.sh installs on an empty system. A program in place of apt-get writes down
# its arguments.
set -euo pipefail

setup="${TEST_SRCDIR}/capstan/deploy/setup.sh"
tools="${TEST_TMPDIR}/tools"
asked="${TEST_TMPDIR}/asked"

# tool NAME SCRIPT
tool() {
  printf '#!/bin/sh\n%s\n' "$2" >"${tools}/$1"
  chmod +x "${tools}/$1"
}
mkdir "${tools}"
tool dpkg-query 'exit 1'
tool apt-get "echo \" \$* \" >>'${asked}'"
tool sudo 'while [ "$1" = -n ]; do shift; done; exec "$@"'

run_setup() {
  rm -f "${asked}"
  PATH="${tools}:${PATH}" "${setup}" "$@"
}
expect_asked() {
  local package
  for package in "$@"; do
    grep --quiet " install .* ${package} " "${asked}" || { echo "not asked for: ${package}" && exit 1; }
  done
}
expect_not_asked() {
  local package
  for package in "$@"; do
    if grep " ${package} " "${asked}"; then echo "asked for: ${package}" && exit 1; fi
  done
}

needed=(bazel-bootstrap libgrpc++-dev libucx-dev prometheus-cpp-dev libjs-d3)
for_tests=(chromium prometheus openmpi-bin libopenmpi-dev libgloo-dev libgtest-dev clang patchelf
  debootstrap slurm-wlm munge openssh-client openssh-server buildah runc)
run_setup build
expect_asked "${needed[@]}"
expect_not_asked "${for_tests[@]}"
run_setup
expect_asked "${needed[@]}" "${for_tests[@]}"

if run_setup tests 2>"${TEST_TMPDIR}/error"; then exit 1; fi
grep 'setup: expected nothing, which installs all packages, or build; got tests' "${TEST_TMPDIR}/error"
[[ ! -e "${asked}" ]]

# Training needs the packages of the build only.
grep --quiet '/setup.sh" build$' "${TEST_SRCDIR}/capstan/deploy/train_local.sh"
