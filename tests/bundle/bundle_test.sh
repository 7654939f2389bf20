#!/usr/bin/env bash
# Packs the programs and the library as deploy/bundle.sh does, and trains from the archive where
# there is nothing else.
set -euo pipefail

limit_bytes=$((60 * 1048576))
runtime='(ld-linux-x86-64|lib(c|m|mvec|pthread|dl|rt|resolv|gcc_s|stdc\+\+))\.so\.[0-9]'
pack=deploy/bundle/pack.sh
# With a space, to see that no path is cut there.
place="${TEST_TMPDIR}/some place"
archive="${TEST_TMPDIR}/capstan.tar.gz"
bundle="${place}/capstan"
mkdir -p "${place}"

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

programs=(
  bin/capstan=deploy/cli/capstan
  bin/capstan_evaluate=deploy/cli/capstan_evaluate
  bin/capstan_coordinator=server/capstan_coordinator
  bin/capstan_server=server/capstan_server
  bin/capstan_worker=worker/capstan_worker
)
library=(
  include/capstan.h=worker/client_api/capstan.h
  lib/libcapstan.so=worker/client_api/libcapstan.so
)
jobs=()
for job in deploy/jobs/*.textproto; do
  jobs+=("jobs/${job##*/}=${job}")
done

archive_is_small() {
  local output
  output="$("${pack}" --output="${archive}" "${programs[@]}" "${library[@]}" "${jobs[@]}")"
  contains "${output}" "${archive}: "
  (($(stat --format=%s "${archive}") < limit_bytes)) || fail "too large: ${output}"
  tar --extract --file="${archive}" --directory="${place}"
}

layout_is_as_promised() {
  local top
  top="$(cd "${bundle}" && echo *)"
  [[ "${top}" == "README.txt bin capstan.spdx.json include jobs lib" ]] ||
    fail "expected other files than: ${top}"
  [[ "$(wc -l <"${bundle}/README.txt")" == 2 ]] || fail "expected two lines in README.txt"
  contains "$(<"${bundle}/README.txt")" "glibc 2."
}

the_list_names_every_file_and_where_it_comes_from() {
  local output library version
  output="$(/usr/bin/python3 tests/bundle/check_spdx.py "${bundle}" \
    "$("${bundle}/bin/capstan" --version)")" || fail "${output}"
  echo "${output}"
  # Two libraries that every program has, by what dpkg says of the originals.
  for library in libgrpc.so libz.so; do
    library="$(basename "$(echo "${bundle}/lib/${library}".*)")"
    version="$(dpkg-query --show --showformat '${binary:Package} ${Version}' \
      "$(dpkg-query --search "*/${library}" | sed 's/:\? .*//; q')")"
    contains "${output}" "lib/${library}: ${version/:amd64/}"
  done
}

a_wrong_list_is_noticed() {
  local wrong="${TEST_TMPDIR}/wrong_list" check=(/usr/bin/python3 tests/bundle/check_spdx.py) version
  version="$("${bundle}/bin/capstan" --version)"
  cp --recursive "${bundle}" "${wrong}"
  echo >>"${wrong}/README.txt"
  contains "$(output_of_failure "${check[@]}" "${wrong}" "${version}")" "./README.txt: expected SHA"
  cp "${bundle}/README.txt" "${wrong}"
  touch "${wrong}/lib/libnew.so"
  contains "$(output_of_failure "${check[@]}" "${wrong}" "${version}")" "libnew.so"
}

# Lines "NAME => PATH" of what the loader takes for the program or library, in a bare environment.
libraries_of() {
  env -i LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" /lib64/ld-linux-x86-64.so.2 --list "$1" |
    sed -nE ':again; s|/\./|/|; t again; s|/[^/]+/\.\./|/|; t again
      s|^\s*(\S+) => (.*) \(0x[0-9a-f]+\)$|\1 => \2|p; /not found/p'
}

only_c_and_c++_come_from_outside() {
  local file found count=0
  for file in "${bundle}"/bin/* "${bundle}"/lib/*.so* "${bundle}"/lib/ucx/*; do
    found="$(libraries_of "${file}" | grep --invert-match -E "^${runtime} =>" |
      grep --invert-match --fixed-strings "=> ${bundle}/" || true)"
    [[ -z "${found}" ]] || fail "${file} takes from outside: ${found}"
    count=$((count + $(libraries_of "${file}" | grep --count --fixed-strings "=> ${bundle}/lib/" ||
      true)))
  done
  ((count > 100)) || fail "expected hundreds of libraries in the bundle to be used, got ${count}"
}

# newest NAME: the newest version of NAME_VERSION in standard input.
newest() { grep -oE "\b$1_[0-9.]+" | sort --version-sort | tail -n 1; }

# a_c_program_trains FOLDER: with the header, the library and the programs of the unpacked archive.
a_c_program_trains() {
  local folder="$1" program="${TEST_TMPDIR}/linear_regression" output
  gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"${folder}/include" \
    tests/client_api/linear_regression.c -L"${folder}/lib" -lcapstan -lm \
    -Wl,-rpath,"${folder}/lib" -o "${program}"
  contains "$(libraries_of "${program}")" "libcapstan.so => ${folder}/lib/libcapstan.so"
  output="$(cd "${TEST_TMPDIR}" && env -i "${folder}/bin/capstan" run --num_workers=2 \
    --worker_command="${program}" --run_dir=c_program)" || fail "training failed: ${output}"
  contains "${output}" "test accuracy"
}

c_programs_train_with_the_bundle() { a_c_program_trains "${bundle}"; }

# Prints what each file needs. RHEL 9 has glibc 2.34, and the libstdc++ of gcc 11.
runs_on_rhel_9() {
  local file symbols needed most
  while read -r file; do
    symbols="$(objdump -T "${file}" | grep UND)"
    needed+="$(printf '%-12s %-16s %s' "$(newest GLIBC <<<"${symbols}" || true)" \
      "$(newest GLIBCXX <<<"${symbols}" || true)" "${file#"${bundle}/"}")"$'\n'
  done < <(find "${bundle}/bin" "${bundle}/lib" -type f | sort)
  echo "${needed}"
  for most in GLIBC_2.34 GLIBCXX_3.4.29; do
    [[ "$(newest "${most%_*}" <<<"${needed} ${most}")" == "${most}" ]] ||
      fail "expected files that need at most ${most}"
    [[ "$(newest "${most%_*}" <<<"${needed}")" == "${most%_*}_"* ]] || fail "expected ${most%_*}"
  done
}

what_rhel_9_lacks_is_refused() {
  local library
  library="$(ldd "${bundle}/bin/capstan" | sed -nE 's/.*libstdc\+\+.* => (\S+) .*/\1/p')"
  contains "$(output_of_failure "${pack}" --output="${TEST_TMPDIR}/4.tar.gz" \
    lib/libstdc++.so.6="${library}")" \
    "expected files that need at most GLIBC_2.34, as RHEL 9 has it, but lib/libstdc++.so.6 needs"
}

other_libraries_on_the_path_change_nothing() {
  mkdir -p "${TEST_TMPDIR}/wrong"
  cp "${bundle}/lib/libz.so.1" "${TEST_TMPDIR}/wrong/libprotobuf.so.32"
  contains "$(LD_LIBRARY_PATH="${TEST_TMPDIR}/wrong" libraries_of "${bundle}/bin/capstan_server")" \
    "libprotobuf.so.32 => ${bundle}/lib/"
}

# Makes a root folder with the libraries of C and C++ and an empty /tmp, to which the bundle and the
# kernel's own files will be bound.
make_bare_root() {
  local root="$1" library
  mkdir -p "${root}"/{lib64,proc,dev,tmp,bundle}
  cp --dereference /lib64/ld-linux-x86-64.so.2 "${root}/lib64"
  while read -r library; do
    cp --parents --dereference "${library}" "${root}"
  done < <(for file in "${bundle}"/bin/* "${bundle}"/lib/*; do libraries_of "${file}"; done |
    grep -E "^${runtime} => /" | sed 's/.* => //' | sort --unique)
}

# Runs the command in the root folder ${bare_root}, with the flags of `unshare` in ${namespaces}.
in_bare_root() {
  # shellcheck disable=SC2016
  local enter='mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    mount --bind "$1" "$0/bundle" && shift && exec env -i "$(command -v chroot)" "$0" "$@"'
  PATH="${PATH}:/usr/sbin:/sbin" unshare "${namespaces[@]}" sh -c "${enter}" "${bare_root}" \
    "${bundle}" "$@"
}

# Runs bin/capstan with nothing around it, or if this machine lets nobody make a root folder, in an
# empty environment.
run_bare() {
  local kind namespaces bare_root="${TEST_TMPDIR}/root"
  make_bare_root "${bare_root}"
  for kind in mount user; do
    namespaces=(--mount)
    [[ "${kind}" == mount ]] || namespaces+=(--user --map-root-user)
    in_bare_root /bundle/bin/capstan --help &>/dev/null || continue
    ! in_bare_root /usr/bin/env &>/dev/null || fail "expected a root folder without /usr/bin/env"
    echo "in a root folder that holds the libraries of C and C++ and the bundle only"
    in_bare_root /bundle/bin/capstan "$@"
    return
  done
  echo "in this machine's root folder, since it lets us make no other"
  (cd "${bare_root}/tmp" && env -i "${bundle}/bin/capstan" "${@//\/bundle/${bundle}}")
}

trains_with_nothing_else_around() {
  local output accuracy
  output="$(run_bare run --job=/bundle/jobs/digits.textproto)" ||
    fail "training failed: ${output}"
  echo "${output}"
  accuracy="$(sed -nE 's/^ *test accuracy +([0-9]+)\.[0-9]+ %$/\1/p' <<<"${output}")"
  ((accuracy >= 95 && accuracy <= 100)) || fail "expected an accuracy of 95 % or more: ${output}"
}

jobs_bring_their_data() {
  local output
  output="$(cd "${TEST_TMPDIR}" && env -i "${bundle}/bin/capstan" run --epochs=1 \
    --job="${bundle}/jobs/agaricus.textproto")" || fail "training failed: ${output}"
  contains "${output}" "test accuracy"
}

same_files_give_the_same_bytes() {
  "${pack}" --output="${TEST_TMPDIR}/1.tar.gz" "${programs[0]}" "${jobs[@]}" >/dev/null
  touch --date=2001-01-01 "${TEST_TMPDIR}/capstan"
  cp deploy/cli/capstan "${TEST_TMPDIR}/other_name"
  "${pack}" --output="${TEST_TMPDIR}/2.tar.gz" "${jobs[@]}" \
    bin/capstan="${TEST_TMPDIR}/other_name" >/dev/null
  cmp "${TEST_TMPDIR}/1.tar.gz" "${TEST_TMPDIR}/2.tar.gz"
}

# A program that goes to tests/ brings its runfiles, which find the libraries, too.
tests_bring_their_runfiles() {
  local folder="${TEST_TMPDIR}/with_data"
  mkdir -p "${folder}" "${folder}/some_test.runfiles/capstan/server"
  cp deploy/cli/capstan "${folder}/some_test"
  cp server/capstan_server "${folder}/some_test.runfiles/capstan/server"
  cp deploy/jobs/digits.textproto "${folder}/some_test.runfiles/capstan"
  "${pack}" --output="${folder}.tar.gz" tests/a-some_test="${folder}/some_test" >/dev/null
  tar --extract --file="${folder}.tar.gz" --directory="${folder}"
  cd "${folder}/capstan/tests/a-some_test.runfiles/capstan"
  cmp digits.textproto "${folder}/some_test.runfiles/capstan/digits.textproto"
  contains "$(libraries_of server/capstan_server)" "=> ${folder}/capstan/lib/libgrpc.so"
  contains "$(env -i server/capstan_server --help 2>&1 || true)" capstan_server
}

# Every library but Capstan's and UCX's has a name of its own, and a job's processes find them.
private_names_are_found() {
  local folder="${TEST_TMPDIR}/private" file output
  mkdir "${folder}"
  "${pack}" --private_names --output="${folder}.tar.gz" "${programs[@]}" "${library[@]}" >/dev/null
  tar --extract --file="${folder}.tar.gz" --directory="${folder}"
  for file in "${folder}"/capstan/lib/*.so*; do
    [[ "${file}" =~ (-capstan|/libcapstan|/libuc[a-z])\.so ]] ||
      fail "expected a name of its own: ${file}"
    ! libraries_of "${file}" |
      grep --invert-match -E "^(${runtime} =>|[^ ]*-capstan\.so|libuc[a-z]\.so)" ||
      fail "expected private names in ${file}"
  done
  output="$(cd "${folder}" && env -i capstan/bin/capstan run --steps=20 --transport=ucx)" ||
    fail "training failed: ${output}"
  a_c_program_trains "${folder}/capstan"
}

too_large_is_refused() {
  head --bytes=$((limit_bytes + 1000000)) /dev/urandom >"${TEST_TMPDIR}/large"
  contains "$(output_of_failure "${pack}" --output="${TEST_TMPDIR}/3.tar.gz" \
    lib/large="${TEST_TMPDIR}/large")" "expected at most 60 MiB, got 60.9"
  [[ ! -e "${TEST_TMPDIR}/3.tar.gz" ]] || fail "expected no archive"
}

wrong_arguments_are_refused() {
  contains "$(output_of_failure "${pack}" a=b)" "expected --output=FILE.tar.gz"
  contains "$(output_of_failure "${pack}" --output=x.tar.gz)" "at least one file"
  contains "$(output_of_failure "${pack}" --output=x.tar.gz --strip a=b)" "got --strip"
  contains "$(output_of_failure "${pack}" --output=x.tar.gz bin/a=/missing)" "there is no /missing"
}

for check in archive_is_small layout_is_as_promised \
  the_list_names_every_file_and_where_it_comes_from a_wrong_list_is_noticed only_c_and_c++_come_from_outside \
  c_programs_train_with_the_bundle runs_on_rhel_9 what_rhel_9_lacks_is_refused \
  other_libraries_on_the_path_change_nothing \
  trains_with_nothing_else_around jobs_bring_their_data same_files_give_the_same_bytes \
  too_large_is_refused wrong_arguments_are_refused private_names_are_found \
  tests_bring_their_runfiles; do
  echo "== ${check}"
  "${check}"
done
