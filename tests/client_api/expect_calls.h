/* What a program in C expects of the calls that it makes wrongly. */
#ifndef TESTS_CLIENT_API_EXPECT_CALLS_H_
#define TESTS_CLIENT_API_EXPECT_CALLS_H_

#include <capstan.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless the call `call` has the status `expected`, and a message that has `part`
 * in it. */
static void expect(capstan_status status, capstan_status expected, const char* part,
                   const char* call) {
  if (status == expected && (status == CAPSTAN_OK || strstr(capstan_last_error(), part))) return;
  fprintf(stderr, "%s: expected status %d and \"%s\", got %d and \"%s\"\n", call, expected, part,
          status, capstan_last_error());
  exit(1);
}
#define OK(call) expect(call, CAPSTAN_OK, "", #call)
#define INVALID(call, part) expect(call, CAPSTAN_INVALID_ARGUMENT, part, #call)
#define WRONG_ORDER(call, part) expect(call, CAPSTAN_WRONG_ORDER, part, #call)
#define FORKED(call) expect(call, CAPSTAN_FORKED, "parent process", #call)
#define TRUE(condition) expect_true(condition, #condition)

static void expect_true(int holds, const char* condition) {
  if (holds) return;
  fprintf(stderr, "expected %s\n", condition);
  exit(1);
}

#endif
