#!/usr/bin/env bash
# Packs the programs as deploy/package.sh does. Then installs, uses and removes the package in a
# new Debian, where this machine lets the test make one.
set -euo pipefail

# shellcheck source=tests/skipped_case.sh
source tests/skipped_case.sh
pack=deploy/package/pack_deb.sh
folder="${TEST_TMPDIR}/packages"
root="${TEST_TMPDIR}/root"
files=(
  deploy/cli/capstan deploy/cli/capstan_evaluate
  server/capstan_coordinator server/capstan_server worker/capstan_worker
  deploy/jobs/*.textproto
)

fail() {
  echo "$1" >&2
  exit 1
}

contains() { [[ "$1" == *"$2"* ]] || fail "expected \"$2\" in: ${1:0:2000}"; }

# Prints the output of the command, which must fail.
output_of_failure() {
  local output
  ! output="$("$@" 2>&1)" || fail "expected a failure of: $*"
  echo "${output}"
}

package_is_made() {
  local output version
  output="$("${pack}" --output="${folder}" "${files[@]}")"
  version="$(deploy/cli/capstan --version)"
  package="${folder}/capstan_${version#* }_$(dpkg --print-architecture).deb"
  contains "${output}" "${package}: "
  dpkg-deb --extract "${package}" "${TEST_TMPDIR}/content"
}

it_depends_on_the_packages_of_its_libraries() {
  local depends
  depends="$(dpkg-deb --field "${package}" Depends)"
  echo "${depends}"
  contains "${depends}" "libc6 (>= 2."
  contains "${depends}" "libgrpc++1"
  [[ "${depends}" != *-dev* ]] || fail "expected no packages for building: ${depends}"
}

same_files_give_the_same_bytes() {
  "${pack}" --output="${TEST_TMPDIR}/again" "${files[@]}" >/dev/null
  cmp "${package}" "${TEST_TMPDIR}/again/${package##*/}"
  SOURCE_DATE_EPOCH=1767225600 "${pack}" --output="${TEST_TMPDIR}/later" "${files[0]}" >/dev/null
  contains "$(dpkg-deb --contents "${TEST_TMPDIR}/later/${package##*/}")" " 2026-01-01 "
}

programs_are_stripped() {
  local program
  for program in "${TEST_TMPDIR}"/content/usr/bin/*; do
    ! readelf --sections --wide "${program}" | grep -E ' \.(symtab|debug_info) ' ||
      fail "expected no symbols in ${program}"
  done
}

wrong_arguments_are_refused() {
  contains "$(output_of_failure "${pack}" deploy/cli/capstan)" "expected --output=DIR, got none"
  contains "$(output_of_failure "${pack}" --output=x server/capstan_server)" "the program capstan"
  contains "$(output_of_failure "${pack}" --output=x --strip)" "got --strip"
  contains "$(output_of_failure "${pack}" --output=x deploy/cli/capstan /missing)" \
    "there is no file /missing"
}

for check in package_is_made it_depends_on_the_packages_of_its_libraries \
  same_files_give_the_same_bytes programs_are_stripped wrong_arguments_are_refused; do
  echo "== ${check}"
  "${check}"
done

echo "== a new Debian"
exit_code=0
answer="$(tests/package/new_debian.sh)" || exit_code=$?
((exit_code != 77)) ||
  end_with_skipped_case "installing, using and removing the package: ${answer}"
((exit_code == 0)) || fail "cannot make a new Debian; see above"
trap 'rm -rf --one-file-system "${root}"' EXIT
mkdir "${root}"
time tar --extract --file="${answer}" --directory="${root}"
install -m 644 "${package}" "${root}/tmp/capstan.deb"
install -m 755 tests/package/installed.sh "${root}/tmp"
# shellcheck disable=SC2016
time unshare --mount --propagation=private sh -c '
  mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" &&
  mount -t devpts -o newinstance,ptmxmode=666 devpts "$0/dev/pts" &&
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$0" /tmp/installed.sh' "${root}"
