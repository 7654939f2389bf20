#ifndef SERVER_SPARSE_HUGE_MEMORY_H_
#define SERVER_SPARSE_HUGE_MEMORY_H_

#include <cstddef>

namespace capstan {

// Memory of zeros that grows. Below 1 MiB it is the heap's, and copied. From then on the kernel
// moves whole pages to a larger range, and a page takes memory when it is first touched. From 8 MiB
// on it has pages of 2 MiB where the system allows them, because random reads from small pages
// spend their time in page tables. It is copied once more when it becomes that large. Not
// thread-safe.
class HugeMemory {
 public:
  HugeMemory() = default;
  ~HugeMemory();
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;

  // Aligned to 64 bytes; null while the size is 0.
  char* data() const { return data_; }
  size_t size() const { return size_; }

  // Afterwards there are `bytes` or more, the new ones zero. The memory may have moved. Ends the
  // process when the system has none left, as `new` does.
  void Grow(size_t bytes);

 private:
  // Makes memory that is mapped already longer.
  void Extend(size_t new_size);

  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace capstan

#endif  // SERVER_SPARSE_HUGE_MEMORY_H_
