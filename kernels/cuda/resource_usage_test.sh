#!/usr/bin/env bash
# Checks resource_usage.py, and with --config=cuda all kernels by it.
set -euo pipefail

fail() {
  echo "$1" >&2
  exit 1
}

usage_of() {
  "${folder}/resource_usage.py" "${TEST_TMPDIR}/kernel.cu.cc" "${TEST_TMPDIR}/kernel.usage" 2>&1
}

# says REGISTERS STACK SPILLS SHARED: what ptxas says of two instances, the second with these.
says() {
  cat >"${TEST_TMPDIR}/kernel.usage" <<END
ptxas info    : Compiling entry function '_ZN7capstan45_GLOBAL__N__1a2b3c4d_12_kernel_cu_cc_3c4d5e6f9AddKernelILi1EEEvPf' for 'sm_75'
ptxas info    : Function properties for _ZN7capstan45_GLOBAL__N__1a2b3c4d_12_kernel_cu_cc_3c4d5e6f9AddKernelILi1EEEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compiling entry function '_ZN7capstan45_GLOBAL__N__1a2b3c4d_12_kernel_cu_cc_3c4d5e6f9AddKernelILi4EEEvPf' for 'sm_90'
ptxas info    : Function properties for _ZN7capstan45_GLOBAL__N__1a2b3c4d_12_kernel_cu_cc_3c4d5e6f9AddKernelILi4EEEvPf
    $2 bytes stack frame, $3 bytes spill stores, $3 bytes spill loads
ptxas info    : Used $1 registers, used 1 barriers, $4 bytes smem
END
}

# refused TEXT: the script fails, and says so.
refused() {
  local output
  ! output="$(usage_of)" || fail "expected a failure, got: ${output}"
  [[ "${output}" == *"$1"* ]] || fail "expected \"$1\" in: ${output}"
}

folder="${TEST_SRCDIR}/capstan/kernels/cuda"
cat >"${TEST_TMPDIR}/kernel.cu.cc" <<'END'
// Adds. Bytes moved for each element: 12. At most 32 registers and 1024 bytes of shared
// memory.
template <int kWidth>
__global__ void __launch_bounds__(std::max(kWidth, 2))
    AddKernel(float* values) {}
END
says 32 0 0 1024
[[ "$(usage_of)" == **"AddKernel "*" 32 of   32 registers,   1024 of   1024 bytes"* ]] ||
  fail "got: $(usage_of)"
says 33 0 0 0
refused 'AddKernel for sm_90: expected at most 32 registers'
says 32 8 0 0
refused 'AddKernel for sm_90'
says 32 0 4 0
refused 'AddKernel for sm_90'
says 32 0 0 1025
refused 'AddKernel for sm_90'
sed -i 's/AddKernel/SubtractKernel/' "${TEST_TMPDIR}/kernel.usage"
refused 'AddKernel: expected what ptxas says of it, got nothing'
sed -i '1,2d' "${TEST_TMPDIR}/kernel.cu.cc"
refused 'AddKernel: expected a budget in the comment before it'

# A loop of 4 instructions, another of 2 in it, and a jump back from behind the end.
says 32 0 0 1024
cat >"${TEST_TMPDIR}/kernel.sass" <<'END'
	.target	sm_90
		Function : _ZN7capstan45_GLOBAL__N__1a2b3c4d_12_kernel_cu_cc_3c4d5e6f9AddKernelILi4EEEvPf
        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */
                                                               /* 0x000fe20000000800 */
        /*0010*/                   IADD3 R2, R2, 0x1, RZ ;     /* 0x00000a00ff017b82 */
        /*0020*/                   FADD R3, R3, R4 ;           /* 0x00000a00ff017b82 */
        /*0030*/              @!P0 BRA 0x20 ;                  /* 0x00000a00ff017b82 */
        /*0040*/               @P1 BRA 0x10 ;                  /* 0x00000a00ff017b82 */
        /*0050*/                   EXIT ;                      /* 0x00000a00ff017b82 */
        /*0060*/                   BRA 0x0 ;                   /* 0x00000a00ff017b82 */
        /*0070*/                   NOP;                        /* 0x00000a00ff017b82 */
END
table="$("${folder}/resource_usage.py" "${TEST_TMPDIR}"/kernel.{usage,sass})"
[[ "${table}" == *$'\n'"kernel: AddKernel<4> "*" 32   1024    0      7  4 2" ]] ||
  fail "expected a line of kernel.cu.cc, got: ${table}"

if [[ $# -eq 0 ]]; then
  echo "nvcc compiled nothing here"
else
  "${folder}/resource_usage.py" "${folder}"/*.cu.cc "$@"
fi
