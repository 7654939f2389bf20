/* Uses the interface wrongly wherever it can: each call says so, and the job goes on. */
#define _POSIX_C_SOURCE 200809L
#include <capstan.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect_calls.h"

enum { ELEMENTS = 6, WITHOUT_LIMIT = -1 };

static const uint64_t shape[] = {2, 3};
static const float zeros[ELEMENTS] = {0};

static capstan_table table_of(const char* name, int32_t layer) {
  capstan_table table = {0};
  table.struct_size = sizeof(table);
  table.name = name;
  table.shape = shape;
  table.dimensions = 2;
  table.layer = layer;
  table.initial = zeros;
  table.initial_from_worker = 1;
  return table;
}

/* Of a table with a momentum. */
static void expect_no_wrong_state(capstan_job* job) {
  float state[ELEMENTS] = {0};
  int64_t steps = 7;
  TRUE(capstan_optimizer_arrays(job, 0) == 1);
  TRUE(capstan_optimizer_arrays(job, 7) == -1);
  INVALID(capstan_read_optimizer_state(job, 7, 0, state, ELEMENTS, &steps, WITHOUT_LIMIT),
          "table: expected");
  INVALID(capstan_read_optimizer_state(job, 0, 1, state, ELEMENTS, &steps, WITHOUT_LIMIT),
          "has 1 arrays of 6 numbers");
  INVALID(capstan_read_optimizer_state(job, 0, -1, state, ELEMENTS, &steps, WITHOUT_LIMIT),
          "from 0 on");
  INVALID(capstan_read_optimizer_state(job, 0, 0, state, 5, &steps, WITHOUT_LIMIT), "of 5");
  INVALID(capstan_read_optimizer_state(job, 0, 0, NULL, ELEMENTS, &steps, WITHOUT_LIMIT), "values");
  INVALID(capstan_read_optimizer_state(job, 0, 0, state, ELEMENTS, NULL, WITHOUT_LIMIT),
          "a place for the steps");
  OK(capstan_read_optimizer_state(job, 0, 0, state, ELEMENTS, &steps, WITHOUT_LIMIT));
  TRUE(steps == 0);
  INVALID(capstan_load_optimizer_state(job, 0, 0, state, ELEMENTS, -1, WITHOUT_LIMIT),
          "steps: expected");
  INVALID(capstan_load_optimizer_state(job, 0, -1, state, ELEMENTS, 0, WITHOUT_LIMIT),
          "array: expected");
  state[0] = NAN;
  INVALID(capstan_load_optimizer_state(job, 0, 0, state, ELEMENTS, 0, WITHOUT_LIMIT), "a NaN");
}

static capstan_job* connect_after_wrong_calls(void) {
  capstan_job* job;
  capstan_connect_options options = {0};
  INVALID(capstan_connect(NULL, NULL), "job: expected a place");
  INVALID(capstan_connect(&options, &job), "struct_size: expected");
  options.struct_size = sizeof(options) + 8;
  INVALID(capstan_connect(&options, &job), "a newer capstan.h");
  options.struct_size = sizeof(options);
  options.steps = -1;
  INVALID(capstan_connect(&options, &job), "steps: expected 0 or more");
  options.steps = 0;
  options.has_rank = 1;
  options.rank = -2;
  INVALID(capstan_connect(&options, &job), "rank: expected 0 or more");
  options.rank = 1;
  options.part = 1;
  INVALID(capstan_connect(&options, &job), "part: expected 0, or 1 to 4096 with has_rank, rank");
  options.incarnation = 5;
  options.part = -1;
  INVALID(capstan_connect(&options, &job), "part: expected 0");
  options.part = 4097;
  INVALID(capstan_connect(&options, &job), "part: expected 0");
  options.part = 1;
  options.replaceable = 1;
  INVALID(capstan_connect(&options, &job), "not replaceable");
  options.replaceable = 0;
  options.part = 0;
  options.incarnation = 0;
  options.has_rank = 0;
  options.rpc_deadline_seconds = NAN;
  INVALID(capstan_connect(&options, &job), "rpc_deadline_seconds: expected 0 or more");
  options.rpc_deadline_seconds = 5;
  options.coordinator = "localhost";
  INVALID(capstan_connect(&options, &job), "coordinator: expected host:port with a port");
  options.coordinator = "a:1,a:1";
  INVALID(capstan_connect(&options, &job), "coordinator: expected different addresses");
  options.coordinator = NULL;
  options.keys = "/no/such/folder";
  expect(capstan_connect(&options, &job), CAPSTAN_FAILED, "/no/such/folder", "keys");
  OK(capstan_connect(NULL, &job));
  return job;
}

/* What the coordinator would refuse is refused at once. */
static void add_wrong_settings(capstan_job* job) {
  int32_t id;
  capstan_optimizer optimizer = {0};
  capstan_table table = table_of("weights", 0);
  table.optimizer = &optimizer;
  optimizer.type = CAPSTAN_MOMENTUM;
  optimizer.learning_rate = -1;
  INVALID(capstan_add_table(job, &table, &id), "table weights: optimizer.learning_rate: expected");
  optimizer.learning_rate = 0.1;
  optimizer.momentum = 1.5;
  INVALID(capstan_add_table(job, &table, &id), "optimizer.momentum: expected");
  optimizer.type = CAPSTAN_FTRL;
  INVALID(capstan_add_table(job, &table, &id), "for a dense table, got FTRL");
  optimizer.type = CAPSTAN_SGD;
  table.initial_from_worker = 0;
  table.initial_stddev = -1;
  INVALID(capstan_add_table(job, &table, &id), "initial_stddev -1");

  capstan_row_optimizer of_rows = {0};
  capstan_sparse_table sparse = {0};
  sparse.struct_size = sizeof(sparse);
  sparse.name = "items";
  sparse.dim = 2;
  sparse.optimizer = &of_rows;
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "struct_size: expected");
  of_rows.struct_size = sizeof(of_rows);
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "optimizer: expected a capstan_optimizer");
  of_rows.type = CAPSTAN_MOMENTUM;
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "for a sparse table, got MOMENTUM");
  of_rows.type = CAPSTAN_FTRL;
  of_rows.learning_rate = 0.1;
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "optimizer.beta: expected");
  of_rows.beta = 1;
  sparse.initial_stddev = 0.1;
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "with which FTRL begins");
  sparse.dim = 2000;
  INVALID(capstan_add_sparse_table(job, &sparse, &id), "dim of 1 to 1024");
}

static void add_tables_after_wrong_calls(capstan_job* job) {
  int32_t id;
  capstan_table table = table_of("weights", 0);
  const capstan_optimizer no_optimizer = {0};
  const uint64_t zero[] = {2, 0}, huge[] = {UINT64_MAX, UINT64_MAX};
  INVALID(capstan_add_table(NULL, &table, &id), "job: expected a job");
  INVALID(capstan_add_table(job, NULL, &id), "capstan_table: expected one");
  INVALID(capstan_add_table(job, &table, NULL), "id: expected a place");
  table.name = "a\nb";
  INVALID(capstan_add_table(job, &table, &id), "name: expected");
  table = table_of("weights", -1);
  INVALID(capstan_add_table(job, &table, &id), "layer: expected 0 or more");
  table = table_of("weights", 0);
  table.shape = zero;
  INVALID(capstan_add_table(job, &table, &id), "expected sizes of 1 or more");
  table.shape = huge;
  INVALID(capstan_add_table(job, &table, &id), "at most 2^40 elements");
  table.shape = shape;
  table.optimizer = &no_optimizer;
  INVALID(capstan_add_table(job, &table, &id), "optimizer: expected a capstan_optimizer_type");
  table.optimizer = NULL;
  table.initial_dtype = 9;
  INVALID(capstan_add_table(job, &table, &id), "dtype");
  add_wrong_settings(job);
  WRONG_ORDER(capstan_start(job, WITHOUT_LIMIT), "at least one table");

  table = table_of("weights", 0);
  OK(capstan_add_table(job, &table, &id));
  INVALID(capstan_add_table(job, &table, &id), "\"weights\" twice");
}

static void set_wrong_local_steps(capstan_job* job) {
  capstan_local_steps local_steps = {0};
  INVALID(capstan_set_local_steps(NULL, &local_steps), "job: expected a job");
  INVALID(capstan_set_local_steps(job, NULL), "capstan_local_steps: expected one");
  INVALID(capstan_set_local_steps(job, &local_steps), "struct_size: expected");
  local_steps.struct_size = sizeof(local_steps);
  INVALID(capstan_set_local_steps(job, &local_steps), "got neither");
  local_steps.round_seconds = NAN;
  INVALID(capstan_set_local_steps(job, &local_steps), "round_seconds: expected");
  local_steps.round_seconds = 0;
  local_steps.sync_every = 50;
  local_steps.fragments = -1;
  INVALID(capstan_set_local_steps(job, &local_steps),
          "fragments and fragment_sync_delay: expected");
  local_steps.fragments = 4;
  INVALID(capstan_set_local_steps(job, &local_steps), "a divisor of sync_every");
}

/* In a child nothing of the job can be used. */
static void call_all(capstan_job* job) {
  int32_t id, is_evaluator;
  uint64_t key = 1;
  float values[ELEMENTS];
  capstan_table table = table_of("late", 1);
  capstan_sparse_table sparse = {0};
  FORKED(capstan_connect(NULL, &job));
  FORKED(capstan_add_table(job, &table, &id));
  FORKED(capstan_add_sparse_table(job, &sparse, &id));
  FORKED(capstan_set_local_steps(job, NULL));
  FORKED(capstan_start(job, WITHOUT_LIMIT));
  TRUE(capstan_rank(job) == -1);
  TRUE(capstan_num_workers(job) == -1);
  TRUE(capstan_step(job) == -1);
  TRUE(capstan_steps_of_job(job) == -1);
  TRUE(capstan_keeps_values(job) == -1);
  TRUE(capstan_values(job, 0) == NULL);
  TRUE(capstan_gradient(job, 0) == NULL);
  FORKED(capstan_read_values(job, 0, values, ELEMENTS, CAPSTAN_FLOAT32));
  FORKED(capstan_write_gradient(job, 0, values, ELEMENTS, CAPSTAN_FLOAT32));
  FORKED(capstan_wait(job, 0, WITHOUT_LIMIT));
  FORKED(capstan_push(job, 0, WITHOUT_LIMIT));
  FORKED(capstan_pull_rows(job, 0, &key, 1, WITHOUT_LIMIT));
  FORKED(capstan_read_rows(job, 0, values, 1, WITHOUT_LIMIT));
  FORKED(capstan_push_rows(job, 0, &key, 1, values, NULL, 0, WITHOUT_LIMIT));
  FORKED(capstan_set_learning_rate(job, 0, NAN));
  FORKED(capstan_set_momentum(job, 0, NAN));
  TRUE(capstan_optimizer_arrays(job, 0) == -1);
  FORKED(capstan_read_optimizer_state(job, 0, 0, values, 1, NULL, WITHOUT_LIMIT));
  FORKED(capstan_load_optimizer_state(job, 0, 0, values, 1, 0, WITHOUT_LIMIT));
  FORKED(capstan_note_round(job, 1, NAN));
  FORKED(capstan_end_step(job, NAN, 0, WITHOUT_LIMIT));
  FORKED(capstan_finish(job, NULL, WITHOUT_LIMIT));
  FORKED(capstan_finish(job, &is_evaluator, WITHOUT_LIMIT));
  FORKED(capstan_report(job, 2, NAN, 0, WITHOUT_LIMIT));
  FORKED(capstan_leave(job));
  FORKED(capstan_fail(job, "the child"));
  capstan_close(job);
}

static void fork_with(capstan_job* job) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    call_all(job);
    _exit(0);
  }
  TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void train_with_wrong_calls(capstan_job* job) {
  int32_t id, is_evaluator;
  capstan_table late = table_of("late", 1);
  const capstan_local_steps local_steps = {sizeof(local_steps), 10, 0, 0, 0};
  float more[ELEMENTS + 1] = {0};
  WRONG_ORDER(capstan_wait(job, 0, WITHOUT_LIMIT), "capstan_start");
  WRONG_ORDER(capstan_leave(job), "has not begun");
  fork_with(job);
  OK(capstan_start(job, WITHOUT_LIMIT));
  fork_with(job);
  WRONG_ORDER(capstan_add_table(job, &late, &id), "before capstan_start");
  WRONG_ORDER(capstan_set_local_steps(job, &local_steps), "before capstan_start");
  WRONG_ORDER(capstan_note_round(job, 10, 0.5), "the job has no local steps");
  INVALID(capstan_wait(job, 1, WITHOUT_LIMIT), "layer: expected");
  INVALID(capstan_push(job, -1, WITHOUT_LIMIT), "layer: expected");
  INVALID(capstan_read_values(job, 0, more, ELEMENTS + 1, CAPSTAN_FLOAT32), "count: expected");
  INVALID(capstan_write_gradient(job, 1, more, ELEMENTS, CAPSTAN_FLOAT32), "table: expected");
  INVALID(capstan_write_gradient(job, 0, more, ELEMENTS, -1), "dtype");
  INVALID(capstan_set_learning_rate(job, 0, NAN), "learning_rate: expected");
  INVALID(capstan_set_learning_rate(job, 7, 0.1), "table: expected");
  INVALID(capstan_set_momentum(job, 0, 1), "momentum: expected");
  INVALID(capstan_set_momentum(job, 7, 0.9), "table: expected");
  OK(capstan_set_momentum(job, -1, 0.9));
  expect_no_wrong_state(job);
  WRONG_ORDER(capstan_report(job, 1, 0, 1, WITHOUT_LIMIT), "capstan_finish");
  for (int step = 0; step < 3; ++step) {
    OK(capstan_wait(job, 0, WITHOUT_LIMIT));
    OK(capstan_write_gradient(job, 0, more, ELEMENTS, CAPSTAN_FLOAT32));
    OK(capstan_push(job, 0, WITHOUT_LIMIT));
    WRONG_ORDER(capstan_push(job, 0, WITHOUT_LIMIT), "layer 0");
    OK(capstan_end_step(job, NAN, 0, WITHOUT_LIMIT));
  }
  INVALID(capstan_finish(job, NULL, WITHOUT_LIMIT), "is_evaluator");
  OK(capstan_finish(job, &is_evaluator, WITHOUT_LIMIT));
  WRONG_ORDER(capstan_push(job, 0, WITHOUT_LIMIT), "");
  INVALID(capstan_report(job, 1.5, NAN, 1, WITHOUT_LIMIT), "test_accuracy: expected 0 to 1");
  OK(capstan_report(job, NAN, NAN, 0, WITHOUT_LIMIT));
}

int main(void) {
  capstan_job* job = connect_after_wrong_calls();
  add_tables_after_wrong_calls(job);
  set_wrong_local_steps(job);
  train_with_wrong_calls(job);
  capstan_close(job);
  capstan_close(NULL);
  TRUE(capstan_rank(NULL) == -1 && capstan_steps_of_job(NULL) == -1 && !capstan_values(NULL, 0));
  TRUE(capstan_keeps_values(NULL) == -1);
  return 0;
}
