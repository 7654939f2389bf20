// Debian's libraries are not instrumented. ThreadSanitizer does not see the atomics that order
// their accesses, only the copies of their memory. It is told here to ignore those.

extern "C" const char* __tsan_default_suppressions();

// Lines of TYPE:FUNCTION. Reports with the function in a stack are left out.
extern "C" const char* __tsan_default_suppressions() {
  // A field's default string is made at its first use, under a lock, and published by an atomic.
  return "race:google::protobuf::internal::LazyString::Init\n";
}
