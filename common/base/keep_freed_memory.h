#ifndef COMMON_BASE_KEEP_FREED_MEMORY_H_
#define COMMON_BASE_KEEP_FREED_MEMORY_H_

namespace capstan {

// From now on, memory that this process frees stays with it for what it allocates next: blocks of
// up to 8 MiB, 256 MiB in all for each of malloc's arenas. By default, malloc gives large blocks
// back at once, and the kernel's zeroing of new ones costs more than to receive a message into
// them.
void KeepFreedMemory();

}  // namespace capstan

#endif  // COMMON_BASE_KEEP_FREED_MEMORY_H_
