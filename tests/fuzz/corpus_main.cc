// The main function of a fuzzer without libFuzzer. Runs it once on each file in the folders of its
// arguments. Arguments with a dash are for libFuzzer, and are ignored.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  int file_count = 0;
  for (const std::string& folder : std::vector<std::string>(argv + 1, argv + argc)) {
    if (folder[0] == '-') continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      std::cout << entry.path() << std::endl;
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      ++file_count;
    }
  }
  std::cout << file_count << " inputs" << std::endl;
  return file_count > 0 ? 0 : 1;
}
