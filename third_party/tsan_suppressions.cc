// What ThreadSanitizer is told of Debian's libraries, which are not instrumented: it does not see
// the atomics that order their accesses, only the memory that they copy.

extern "C" const char* __tsan_default_suppressions();

// Lines of TYPE:FUNCTION; a report with the function in one of its stacks is not made.
extern "C" const char* __tsan_default_suppressions() {
  // A field's default string is made at its first use, under a lock, and published by an atomic.
  return "race:google::protobuf::internal::LazyString::Init\n";
}
