#ifndef COMMON_BASE_LITTLE_ENDIAN_H_
#define COMMON_BASE_LITTLE_ENDIAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace capstan {

// Unsigned numbers as bytes, the lowest byte first on every machine.

template <typename Number>
void AppendLittleEndian(Number value, std::string* bytes) {
  char encoded[sizeof(Number)];
  for (size_t i = 0; i < sizeof(Number); ++i) encoded[i] = static_cast<char>(value >> (8 * i));
  bytes->append(encoded, sizeof(Number));
}

// Reads the first sizeof(Number) bytes.
template <typename Number>
Number ReadLittleEndian(const uint8_t* bytes) {
  Number value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) value |= Number{bytes[i]} << (8 * i);
  return value;
}

}  // namespace capstan

#endif  // COMMON_BASE_LITTLE_ENDIAN_H_
