// Histories of two worker processes, and their checker.
#include "common/history/check/check_history.h"
#include "common/history/history.h"
#include "common/history/history_file.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"

namespace capstan {
namespace {

void Fuzz(FuzzInput input) {
  HistoryAssembler assembler;
  for (const absl::string_view part : {input.TakePart(), input.rest()}) {
    const auto records = ReadHistoryFile(MemoryFile(part).path());
    if (!records.ok()) return;
    if (!records->empty() && !assembler.AddFile(*records).ok()) return;
  }
  const auto history = assembler.Finish();
  if (history.ok()) CheckHistory(*history).IgnoreError();
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
