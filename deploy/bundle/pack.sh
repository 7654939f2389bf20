#!/usr/bin/env bash
# Packs programs, their shared libraries and other files into one archive. It runs on any x86-64
# Linux from RHEL 9 and Ubuntu 22.04 on. It needs nothing installed and no variable set.
# Usage: deploy/bundle/pack.sh --output=FILE.tar.gz [--with_cublas] [--private_names] DEST=SOURCE...
#
# DEST is a path in the archive's folder `capstan`, such as bin/capstan_server. A program in tests/
# comes with its runfiles, in DEST.runfiles/capstan. A job in jobs/ comes with its data files, in
# jobs/data. The libraries of C and C++ and of the GPU's driver are left out, and cuBLAS unless
# --with_cublas is given. With --private_names, libz.so.1 is called libz-capstan.so.1, and so on: a
# process that has loaded another libz.so.1 loads this one, too. UCX keeps its names.
# capstan.spdx.json lists all files and the Debian packages that libraries come from (spdx.py). The
# same inputs give the same bytes. Needs patchelf and python3.
set -euo pipefail

# shellcheck source=deploy/bundle/job_data.sh
source "$(dirname "${BASH_SOURCE[0]}")/job_data.sh"

max_mib=60  # without cuBLAS (570)
# Those of RHEL 9. Ubuntu 22.04 and Debian 12 have newer ones.
max_glibc=2.34
max_glibcxx=3.4.29

# Shared libraries of the machine that runs the bundle. A machine's own libraries, as cuBLAS or the
# driver's, may need newer ones of C and C++ than a bundle could bring.
runtime='libstdc\+\+\.so\.6|libgcc_s\.so\.1'
glibc='ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|nsl|nss_[a-z]+)\.so\.[0-9]'
driver='libcuda\.so.*|libnvidia-.*'
cublas='libcublas(Lt)?\.so.*'
# The usual folder of CUDA's libraries.
cuda_libraries=/usr/local/cuda/lib64

fail() {
  echo "pack: $1" >&2
  exit 1
}

output=
with_cublas=0
private_names=0
entries=()
for argument in "$@"; do
  case "${argument}" in
    --output=?*) output="${argument#*=}" ;;
    --with_cublas) with_cublas=1 ;;
    --private_names) private_names=1 ;;
    --*)
      fail "expected --output=FILE.tar.gz, --with_cublas, --private_names or DEST=SOURCE, \
got ${argument}"
      ;;
    ?*=?*) entries+=("${argument}") ;;
    *) fail "expected DEST=SOURCE, got ${argument}" ;;
  esac
done
[[ -n "${output}" ]] || fail "expected --output=FILE.tar.gz, got none"
[[ ${#entries[@]} -gt 0 ]] || fail "expected DEST=SOURCE of at least one file, got none"
for program in patchelf python3; do
  command -v "${program}" >/dev/null ||
    fail "expected the program ${program}; install it (deploy/setup.sh)"
done
left_out="${glibc}|${runtime}|${driver}"
((with_cublas)) || left_out+="|${cublas}"

scratch="$(mktemp -d)"
trap 'rm -rf "${scratch}"' EXIT
root="${scratch}/capstan"
mkdir -p "${root}/lib"
origins="${scratch}/origins"  # as spdx.py reads it
version=
needs_cublas=0  # from the machine that runs the bundle

is_elf() { [[ "$(head --bytes=4 "$1" | tr '\0' ' ')" == $'\x7fELF' ]]; }

# packed_name LIBRARY: its name in the archive. UCX keeps its names: it loads the modules of a
# machine's drivers, and these ask for them.
packed_name() {
  if ((private_names)) && [[ ! "$1" =~ ^libuc[a-z]\.so ]]; then
    echo "${1%%.so*}-capstan.so${1#*.so}"
  else
    echo "$1"
  fi
}

# Makes the file ask for its libraries by the names in the archive.
use_packed_names() {
  local file="$1" name changes=()
  while read -r name; do
    [[ "${name}" =~ ^(${left_out})$ ]] ||
      changes+=(--replace-needed "${name}" "$(packed_name "${name}")")
  done < <(patchelf --print-needed "${file}")
  [[ ${#changes[@]} -eq 0 ]] || patchelf "${changes[@]}" "${file}"
}

# Makes the file find its libraries in lib/. DT_RPATH comes before LD_LIBRARY_PATH.
set_library_path() {
  local file="$1" path needed
  path="\$ORIGIN/$(realpath --relative-to="$(dirname "${file}")" "${root}/lib")"
  needed="$(patchelf --print-needed "${file}")"
  if ((!with_cublas)) && grep -qE "^(${cublas})$" <<<"${needed}"; then
    needs_cublas=1
    path+=":${cuda_libraries}"
  fi
  patchelf --force-rpath --set-rpath "${path}" "${file}"
  ((!private_names)) || use_packed_names "${file}"
}

# Copies the library $2, which programs call $1, unless it is there. Two libraries cannot share a
# name.
add_library() {
  local name path="$2"
  name="$(packed_name "$1")"
  if [[ ! -e "${root}/lib/${name}" ]]; then
    install -m 755 "${path}" "${root}/lib/${name}"
    printf '%s\n' "lib/${name}" "${path}" >>"${origins}"
    set_library_path "${root}/lib/${name}"
    [[ "${name}" == "$1" ]] || patchelf --set-soname "${name}" "${root}/lib/${name}"
    sha256sum <"${path}" >"${scratch}/${name}.sum"
    # UCX looks for its modules there. This one copies between processes of one host. Modules for
    # RDMA belong to the drivers of a machine.
    [[ "$1" != libuct.so.* ]] ||
      add_file "lib/ucx/libuct_cma.so.0" "$(dirname "${path}")/ucx/libuct_cma.so.0"
  elif [[ "$(sha256sum <"${path}")" != "$(<"${scratch}/${name}.sum")" ]]; then
    fail "expected one ${name} for all programs, got another one in ${path}; build them all anew"
  fi
}

# Copies the libraries of the program or library $1. `ldd` lists them all, also indirect ones.
add_libraries_of() {
  local source="$1" name arrow path listing
  listing="$(ldd "${source}")" || fail "cannot tell the libraries of ${source}: ${listing}"
  while read -r name arrow path _; do
    [[ "${arrow}" == "=>" && ! "${name}" =~ ^(${left_out})$ ]] || continue
    [[ "${path}" == /* ]] || fail "${source} needs ${name}, which is not on this machine"
    add_library "${name}" "${path}"
  done <<<"${listing}"
}

# Copies the file $2 to $1, with the libraries of a program or library.
add_file() {
  local dest="${root}/$1" source="$2" mode=644
  [[ -f "${source}" ]] || fail "expected a file for $1, but there is no ${source}"
  [[ ! -e "${dest}" ]] || fail "expected one file for $1, got another one, ${source}"
  [[ ! -x "${source}" ]] || mode=755
  install -D -m "${mode}" "${source}" "${dest}"
  if is_elf "${source}"; then
    chmod u+w "${dest}"
    printf '%s\n' "$1" "$(realpath "${source}")" >>"${origins}"
    add_libraries_of "${source}"
    set_library_path "${dest}"
  fi
}

# Copies the runfiles of the program $2, without the program and its libraries.
add_runfiles() {
  local dest="$1" source="$2" folder="$2.runfiles/capstan" file
  [[ -d "${folder}" ]] || return 0
  while read -r file; do
    ! cmp --silent "${folder}/${file}" "${source}" || continue
    add_file "${dest}.runfiles/capstan/${file}" "${folder}/${file}"
  done < <(cd "${folder}" && find -L . -type f -not -path './_solib*' -printf '%P\n' | sort)
}

# Ends if a packed file needs a newer version of the library with symbols $1_VERSION than $2.
check_versions() {
  local file version
  while read -r file; do
    is_elf "${file}" || continue
    version="$(readelf --version-info --wide "${file}" |
      sed -nE "s/.*Name: $1_([0-9.]+) .*/\1/p" | sort --version-sort | tail -n 1)"
    printf '%s\n' "${version}" "$2" | sort --version-sort --check=quiet ||
      fail "expected files that need at most $1_$2, as RHEL 9 has it, but ${file#"${root}/"} needs \
$1_${version}; find the symbol with objdump -T"
  done < <(find "${root}" -type f)
}

write_readme() {
  local more="nothing else"
  ((!needs_cublas)) || more="CUDA 13's cuBLAS in ${cuda_libraries} or on LD_LIBRARY_PATH"
  cat >"${root}/README.txt" <<TEXT
Train:  bin/capstan run --job=jobs/digits.textproto  (from any folder; --help: all flags)
Needs:  x86-64 Linux with glibc ${max_glibc} and libstdc++ of gcc 11, or newer ones, and ${more}.
TEXT
}

for entry in "${entries[@]}"; do
  dest="${entry%%=*}"
  source="${entry#*=}"
  add_file "${dest}" "${source}"
  case "${dest}" in
    bin/capstan)
      version="$("${source}" --version)" || fail "expected a version of ${source}, got none"
      version="${version##* }"
      ;;
    tests/*) add_runfiles "${dest}" "${source}" ;;
    jobs/*.textproto) pack_job_data "${root}/${dest}" "${source}" ;;
  esac
done
check_versions GLIBC "${max_glibc}"
check_versions GLIBCXX "${max_glibcxx}"
write_readme
touch "${origins}"
python3 "$(dirname "${BASH_SOURCE[0]}")/spdx.py" "${root}" "${origins}" "${version}" \
  >"${scratch}/capstan.spdx.json" || fail "cannot list the files; see above"
install -m 644 "${scratch}/capstan.spdx.json" "${root}"

tar --create --directory="${scratch}" --sort=name --mtime='2000-01-01 00:00:00Z' --format=gnu \
  --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' capstan | gzip --no-name \
  >"${scratch}/bundle.tar.gz"
bytes="$(stat --format=%s "${scratch}/bundle.tar.gz")"
tenths=$((bytes * 10 / 1048576))
if ((!with_cublas && bytes > max_mib * 1048576)); then
  echo "pack: largest files, in bytes:" >&2
  find "${root}" -type f -printf '  %s %P\n' | sort --key=1nr | sed -n 1,8p >&2
  fail "expected at most ${max_mib} MiB, got $((tenths / 10)).$((tenths % 10)); leave out some"
fi
mkdir -p "$(dirname "${output}")"
mv "${scratch}/bundle.tar.gz" "${output}"
echo "${output}: $((tenths / 10)).$((tenths % 10)) MiB, $(find "${root}" -type f | wc -l) files"
