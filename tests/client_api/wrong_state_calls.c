/* Calls wrongly whatever workers do together and whatever is about state: without a job, before its
 * start, in a training, and after the last step. Each call says so, and the job goes on. */
#include <capstan.h>
#include <math.h>
#include <stddef.h>

#include "expect_calls.h"

enum { ELEMENTS = 6, STEPS = 2, MOST_ARRAYS = 17, WITHOUT_LIMIT = -1 };
/* The tables, and the layers of the dense ones. */
enum { HERE = 0, ON_SERVERS = 1, ROWS = 2, NO_TABLE = 7 };

static const uint64_t shape[] = {2, 3};
static float values[ELEMENTS] = {0};
static const float* arrays[MOST_ARRAYS + 1];
static char text[] = "abc";
static int32_t out;
static int64_t steps;
static size_t size = sizeof(text);

/* Calls every function with arguments that fit; each has this status, and `part` in its message. */
static void expect_of_all(capstan_job* job, capstan_status status, const char* part) {
#define EXPECTED(call) expect(call, status, part, #call)
  EXPECTED(capstan_all_reduce(job, CAPSTAN_SUM, values, 1, CAPSTAN_FLOAT32, WITHOUT_LIMIT));
  EXPECTED(capstan_all_reduce_tensor(job, CAPSTAN_SUM, values, shape, 2, CAPSTAN_FLOAT32,
                                     WITHOUT_LIMIT));
  EXPECTED(capstan_broadcast(job, 0, values, 1, CAPSTAN_FLOAT32, WITHOUT_LIMIT));
  EXPECTED(capstan_broadcast_tensor(job, 0, values, shape, 2, CAPSTAN_FLOAT32, WITHOUT_LIMIT));
  EXPECTED(capstan_barrier(job, WITHOUT_LIMIT));
  EXPECTED(capstan_join(job, &out, WITHOUT_LIMIT));
  EXPECTED(capstan_push_nothing(job, HERE, WITHOUT_LIMIT));
  EXPECTED(capstan_read_optimizer_state(job, HERE, 0, values, ELEMENTS, &steps, WITHOUT_LIMIT));
  EXPECTED(capstan_keep_table(job, HERE, arrays, 1, ELEMENTS, 0, WITHOUT_LIMIT));
#undef EXPECTED
  TRUE(capstan_updates(job, HERE) == -1);
}

static void call_without_a_start(capstan_job* job, capstan_status status, const char* part) {
  expect_of_all(job, status, part);
  expect(capstan_worker_state_put(job, "a", text, size), status, part, "capstan_worker_state_put");
  expect(capstan_worker_state_get(job, "a", text, &size), status, part, "capstan_worker_state_get");
  expect(capstan_worker_state_due(job, &out, WITHOUT_LIMIT), status, part,
         "capstan_worker_state_due");
  /* Arguments that do not fit do not matter then. */
  expect(capstan_keep_table(job, -1, NULL, 9, 9, 0, 0), status, part, "capstan_keep_table");
  expect(capstan_all_reduce(job, -1, NULL, 9, -1, 0), status, part, "capstan_all_reduce");
  expect(capstan_all_reduce_tensor(job, -1, NULL, NULL, 9, -1, 0), status, part,
         "capstan_all_reduce_tensor");
  expect(capstan_broadcast_tensor(job, -1, NULL, NULL, 9, -1, 0), status, part,
         "capstan_broadcast_tensor");
  expect(capstan_join(job, NULL, 0), status, part, "capstan_join");
  expect(capstan_worker_state_get(job, NULL, NULL, NULL), status, part, "capstan_worker_state_get");
}

static void call_without_a_job(void) {
  call_without_a_start(NULL, CAPSTAN_INVALID_ARGUMENT, "job: expected a job");
  INVALID(capstan_load_optimizer_state(NULL, ON_SERVERS, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "job: expected a job");
  TRUE(capstan_optimizer_arrays(NULL, HERE) == -1);
}

static capstan_table table_of(const char* name, int32_t layer) {
  capstan_table table = {0};
  table.struct_size = sizeof(table);
  table.name = name;
  table.shape = shape;
  table.dimensions = 2;
  table.layer = layer;
  return table;
}

static void add_tables(capstan_job* job) {
  int32_t id;
  const capstan_optimizer sgd = {CAPSTAN_SGD, 0.1, 0, 0, 0, 0, 0};
  capstan_table table = table_of("here", HERE);
  table.replies_mean = 1;
  table.optimizer = &sgd;
  INVALID(capstan_add_table(job, &table, &id),
          "table here, whose optimizer the program runs: expected a dense table without");
  table.optimizer = NULL;
  OK(capstan_add_table(job, &table, &id));
  TRUE(id == HERE);

  /* As a program with the first version of the header: it ends before the later fields. */
  table = table_of("on servers", ON_SERVERS);
  table.replies_mean = 1;
  table.struct_size = offsetof(capstan_table, dense_optimizer);
  OK(capstan_add_table(job, &table, &id));
  TRUE(id == ON_SERVERS && capstan_optimizer_arrays(job, ON_SERVERS) == 1);
  table.struct_size = offsetof(capstan_table, initial_stddev);
  INVALID(capstan_add_table(job, &table, &id), "struct_size: expected");

  capstan_row_optimizer of_rows = {0};
  of_rows.struct_size = sizeof(of_rows);
  of_rows.type = CAPSTAN_SGD;
  of_rows.learning_rate = 0.1;
  capstan_sparse_table rows = {0};
  rows.struct_size = sizeof(rows);
  rows.name = "rows";
  rows.dim = 2;
  rows.optimizer = &of_rows;
  OK(capstan_add_sparse_table(job, &rows, &id));
  TRUE(id == ROWS);
}

static void load_wrongly(capstan_job* job) {
  INVALID(capstan_load_optimizer_state(job, HERE, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "table here: expected one whose optimizer the servers run");
  INVALID(capstan_load_optimizer_state(job, ROWS, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "table rows: expected a dense one");
  INVALID(capstan_load_optimizer_state(job, NO_TABLE, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "table: expected one below 3");
  INVALID(capstan_load_optimizer_state(job, -1, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "table: expected one from 0 on");
  INVALID(capstan_load_optimizer_state(job, ON_SERVERS, -1, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "array: expected 0 or more");
  INVALID(capstan_load_optimizer_state(job, ON_SERVERS, 1, values, ELEMENTS, 0, WITHOUT_LIMIT),
          "has 1 arrays of 6 numbers");
  INVALID(capstan_load_optimizer_state(job, ON_SERVERS, 0, values, 5, 0, WITHOUT_LIMIT), "of 5");
  INVALID(capstan_load_optimizer_state(job, ON_SERVERS, 0, NULL, ELEMENTS, 0, WITHOUT_LIMIT),
          "values: expected 6 of them, got NULL");
  INVALID(capstan_load_optimizer_state(job, ON_SERVERS, 0, values, ELEMENTS, -1, WITHOUT_LIMIT),
          "steps: expected 0 to 2^62, got -1");
}

static void reduce_wrongly(capstan_job* job) {
  const size_t too_many = (1 << 18) + 1; /* of float32 in 1 MiB */
  for (int32_t operation = -1; operation <= 99; operation += 100) {
    INVALID(capstan_all_reduce(job, operation, values, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
            "operation: expected CAPSTAN_SUM");
  }
  INVALID(capstan_all_reduce(job, CAPSTAN_SUM, values, ELEMENTS, -1, WITHOUT_LIMIT), "dtype:");
  INVALID(capstan_all_reduce(job, CAPSTAN_SUM, values, ELEMENTS, CAPSTAN_BFLOAT16, WITHOUT_LIMIT),
          "dtype: expected CAPSTAN_FLOAT32, CAPSTAN_FLOAT64 or CAPSTAN_INT64");
  INVALID(capstan_all_reduce(job, CAPSTAN_SUM, NULL, 1, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "values: expected 1 of them, got NULL");
  INVALID(capstan_all_reduce(job, CAPSTAN_SUM, values, too_many, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "count: expected at most 262144 elements");
  INVALID(capstan_all_reduce(job, CAPSTAN_MEAN, values, 1, CAPSTAN_INT64, WITHOUT_LIMIT),
          "expected floats for a mean");
  OK(capstan_all_reduce(job, CAPSTAN_SUM, values, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT));

  INVALID(capstan_broadcast(job, -1, values, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "root: expected a worker's rank from 0 on, got -1");
  INVALID(capstan_broadcast(job, 1, values, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "root: expected a worker's rank below 1, got 1");
  INVALID(capstan_broadcast(job, 0, NULL, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT), "values:");
  INVALID(capstan_broadcast(job, 0, values, ELEMENTS, 99, WITHOUT_LIMIT), "dtype:");
  INVALID(capstan_broadcast(job, 0, values, too_many, CAPSTAN_FLOAT32, WITHOUT_LIMIT), "count:");
  OK(capstan_broadcast(job, 0, values, ELEMENTS, CAPSTAN_FLOAT32, WITHOUT_LIMIT));

  INVALID(capstan_join(job, NULL, WITHOUT_LIMIT), "others_go_on: expected a place");
  OK(capstan_barrier(job, WITHOUT_LIMIT));
}

/* Both functions with this shape: the arguments are wrong, and this is in the message. */
static void expect_wrong_shape(capstan_job* job, void* tensor, const uint64_t* sizes,
                               size_t num_dims, const char* part) {
  INVALID(capstan_all_reduce_tensor(job, CAPSTAN_MEAN, tensor, sizes, num_dims, CAPSTAN_FLOAT32,
                                    WITHOUT_LIMIT),
          part);
  INVALID(capstan_broadcast_tensor(job, 0, tensor, sizes, num_dims, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          part);
}

static void reduce_tensors_wrongly(capstan_job* job) {
  enum { MOST_DIMENSIONS = 64 };
  static uint64_t ones[MOST_DIMENSIONS];
  const uint64_t too_many[] = {512, 513};
  const uint64_t overflows[] = {(uint64_t)1 << 32, (uint64_t)1 << 32, 6};
  const uint64_t nothing[] = {UINT64_MAX, 0, UINT64_MAX};
  double number = 0.5;
  for (int i = 0; i < MOST_DIMENSIONS; ++i) ones[i] = 1;
  expect_wrong_shape(job, values, NULL, 2, "shape: expected 2 of them, got NULL");
  expect_wrong_shape(job, values, ones, MOST_DIMENSIONS + 1, "at most 64 dimensions, got 65");
  expect_wrong_shape(job, values, NULL, SIZE_MAX,
                     "shape: expected at most 64 dimensions, got 1844");
  expect_wrong_shape(job, values, too_many, 2,
                     "shape: expected at most 262144 elements, 1 MiB, got 512x513: larger");
  expect_wrong_shape(job, values, overflows, 3, "shape: expected at most 262144 elements, 1 MiB");
  expect_wrong_shape(job, NULL, shape, 2, "values: expected 6 of them, got NULL");
  expect_wrong_shape(job, NULL, NULL, 0, "values: expected 1 of them, got NULL");
  INVALID(capstan_all_reduce_tensor(job, 0, values, shape, 2, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "operation: expected CAPSTAN_SUM");
  INVALID(capstan_all_reduce_tensor(job, CAPSTAN_SUM, values, shape, 2, -1, WITHOUT_LIMIT),
          "dtype:");
  INVALID(capstan_broadcast_tensor(job, 1, values, shape, 2, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "root: expected a worker's rank below 1, got 1");
  INVALID(capstan_broadcast_tensor(job, -1, values, shape, 2, CAPSTAN_FLOAT32, WITHOUT_LIMIT),
          "root: expected a worker's rank from 0 on, got -1");

  OK(capstan_all_reduce_tensor(job, CAPSTAN_SUM, values, shape, 2, CAPSTAN_FLOAT32, WITHOUT_LIMIT));
  OK(capstan_all_reduce_tensor(job, CAPSTAN_SUM, values, ones, MOST_DIMENSIONS, CAPSTAN_FLOAT32,
                               WITHOUT_LIMIT));
  OK(capstan_all_reduce_tensor(job, CAPSTAN_SUM, NULL, nothing, 3, CAPSTAN_INT64, WITHOUT_LIMIT));
  OK(capstan_broadcast_tensor(job, 0, &number, NULL, 0, CAPSTAN_FLOAT64, WITHOUT_LIMIT));
  TRUE(number == 0.5);
}

static void keep_wrongly(capstan_job* job) {
  const float* const missing[] = {values, NULL};
  INVALID(capstan_keep_table(job, -1, arrays, 1, ELEMENTS, 0, WITHOUT_LIMIT),
          "table: expected one from 0 on, got -1");
  for (int32_t table = ON_SERVERS; table <= NO_TABLE; ++table) {
    INVALID(capstan_keep_table(job, table, arrays, 1, ELEMENTS, 0, WITHOUT_LIMIT),
            "table: expected one whose optimizer the program runs");
  }
  INVALID(capstan_keep_table(job, HERE, NULL, 1, ELEMENTS, 0, WITHOUT_LIMIT),
          "arrays: expected 1 of them, got NULL");
  INVALID(capstan_keep_table(job, HERE, missing, 2, ELEMENTS, 0, WITHOUT_LIMIT),
          "an array: expected 6 of them, got NULL");
  INVALID(capstan_keep_table(job, HERE, NULL, 0, ELEMENTS, 0, WITHOUT_LIMIT),
          "expected its parameters and at most 16 arrays");
  INVALID(capstan_keep_table(job, HERE, arrays, MOST_ARRAYS + 1, ELEMENTS, 0, WITHOUT_LIMIT),
          "num_arrays: expected at most 17, got 18");
  INVALID(capstan_keep_table(job, HERE, arrays, 1, ELEMENTS - 1, 0, WITHOUT_LIMIT),
          "each of 6 numbers");
  INVALID(capstan_keep_table(job, HERE, missing + 1, 1, 0, 0, WITHOUT_LIMIT), "each of 6 numbers");
  OK(capstan_keep_table(job, HERE, arrays, MOST_ARRAYS, ELEMENTS, 0, WITHOUT_LIMIT));
}

static void read_wrongly(capstan_job* job) {
  TRUE(capstan_optimizer_arrays(job, HERE) == 0);
  TRUE(capstan_optimizer_arrays(job, ROWS) == 0);
  TRUE(capstan_optimizer_arrays(job, -1) == -1);
  INVALID(capstan_read_optimizer_state(job, HERE, 0, values, ELEMENTS, &steps, WITHOUT_LIMIT),
          "table here: the servers have no array 0");
  INVALID(capstan_read_optimizer_state(job, HERE, 16, values, ELEMENTS, &steps, WITHOUT_LIMIT),
          "got array 16");
  INVALID(capstan_read_optimizer_state(job, ROWS, 0, values, ELEMENTS, &steps, WITHOUT_LIMIT),
          "table rows: expected a dense one");
  INVALID(capstan_read_optimizer_state(job, -1, 0, values, ELEMENTS, &steps, WITHOUT_LIMIT),
          "table: expected one from 0 on");
  TRUE(capstan_updates(job, -1) == -1);
  TRUE(capstan_updates(job, ROWS) == -1);
  TRUE(capstan_updates(job, NO_TABLE) == -1);
}

static void use_worker_state_wrongly(capstan_job* job) {
  INVALID(capstan_worker_state_put(job, NULL, text, 1), "name: expected one");
  INVALID(capstan_worker_state_put(job, "", text, 1), "name: expected one");
  INVALID(capstan_worker_state_put(job, "a", NULL, 1), "bytes: expected 1 of them, got NULL");
  INVALID(capstan_worker_state_put(job, "a", text, SIZE_MAX / 2), "together");
  INVALID(capstan_worker_state_get(job, NULL, text, &size), "expected a name, a size");
  INVALID(capstan_worker_state_get(job, "a", text, NULL), "expected a name, a size");
  INVALID(capstan_worker_state_get(job, "a", NULL, &size), "expected a name, a size");
  WRONG_ORDER(capstan_worker_state_get(job, "a", text, &size), "does not go on from a checkpoint");
  INVALID(capstan_worker_state_due(job, NULL, WITHOUT_LIMIT), "is_due: expected a place");
  OK(capstan_worker_state_due(job, &out, WITHOUT_LIMIT));
  TRUE(out == 0);
  OK(capstan_worker_state_put(job, "nothing", NULL, 0));
}

static void train(capstan_job* job) {
  INVALID(capstan_push_nothing(job, -1, WITHOUT_LIMIT), "layer: expected 0 to 1, got -1");
  INVALID(capstan_push_nothing(job, 2, WITHOUT_LIMIT), "layer: expected 0 to 1, got 2");
  for (int step = 0; step < STEPS; ++step) {
    OK(capstan_wait(job, -1, WITHOUT_LIMIT));
    TRUE(capstan_updates(job, HERE) == 0 && capstan_updates(job, ON_SERVERS) == step);
    OK(capstan_push_nothing(job, HERE, WITHOUT_LIMIT));
    WRONG_ORDER(capstan_push_nothing(job, HERE, WITHOUT_LIMIT), "layer 0 has been pushed");
    WRONG_ORDER(capstan_push(job, HERE, WITHOUT_LIMIT), "layer 0 has been pushed");
    OK(capstan_push(job, ON_SERVERS, WITHOUT_LIMIT));
    WRONG_ORDER(
        capstan_load_optimizer_state(job, ON_SERVERS, 0, values, ELEMENTS, 0, WITHOUT_LIMIT),
        "before the first gradient is pushed");
    OK(capstan_end_step(job, 0, 1, WITHOUT_LIMIT));
  }
  OK(capstan_keep_table(job, HERE, arrays, 1, ELEMENTS, /* is_last= */ 1, WITHOUT_LIMIT));
}

int main(void) {
  capstan_job* job;
  int32_t is_evaluator;
  for (int i = 0; i <= MOST_ARRAYS; ++i) arrays[i] = values;
  call_without_a_job();
  OK(capstan_connect(NULL, &job));
  call_without_a_start(job, CAPSTAN_WRONG_ORDER, "capstan_start");
  add_tables(job);
  load_wrongly(job);
  call_without_a_start(job, CAPSTAN_WRONG_ORDER, "capstan_start");
  OK(capstan_start(job, WITHOUT_LIMIT));
  reduce_wrongly(job);
  reduce_tensors_wrongly(job);
  load_wrongly(job);
  keep_wrongly(job);
  read_wrongly(job);
  use_worker_state_wrongly(job);
  train(job);
  OK(capstan_finish(job, &is_evaluator, WITHOUT_LIMIT));
  WRONG_ORDER(capstan_push_nothing(job, HERE, WITHOUT_LIMIT), "");
  WRONG_ORDER(capstan_barrier(job, WITHOUT_LIMIT), "has finished");
  WRONG_ORDER(capstan_join(job, &out, WITHOUT_LIMIT), "has finished");
  OK(capstan_report(job, NAN, NAN, 0, WITHOUT_LIMIT));
  WRONG_ORDER(capstan_keep_table(job, HERE, arrays, 1, ELEMENTS, 1, WITHOUT_LIMIT), "");
  TRUE(capstan_updates(job, HERE) == -1);
  capstan_close(job);
  return 0;
}
