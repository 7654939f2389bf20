/* The C interface: train any program's model on Capstan's parameter servers.
 *
 *   capstan_connect      reads the job from its coordinator
 *   capstan_add_table    names each parameter tensor, with its initial values and its optimizer;
 *                        capstan_add_sparse_table a table of rows by key
 *   capstan_start        joins the job, and waits until all its processes are there
 *   each step:
 *     capstan_wait       until a layer's values have arrived; then compute with capstan_values
 *     capstan_push       once the layer's gradient is complete in capstan_gradient
 *     capstan_end_step   with the loss and the number of samples
 *   capstan_finish       no further step: waits until all workers have done theirs
 *   capstan_report       the test accuracy, by the worker that evaluates
 *   capstan_close
 *
 * A layer is a set of tables that are pushed and pulled together. Layers are counted from the
 * input: layer 0 is sent first, because the next step needs it first.
 *
 * Errors. A function that can fail returns a capstan_status. capstan_last_error then has a message
 * for people, with what to do. After CAPSTAN_FAILED or CAPSTAN_LEFT the job is over for this
 * process. Later calls that wait, pull, push, end a step, finish or set a learning rate return the
 * same status, if their arguments are right. The memory of the tables stays until capstan_close.
 *
 * Each function names its own errors. Common are:
 *   CAPSTAN_INVALID_ARGUMENT: the job is NULL.
 *   CAPSTAN_WRONG_ORDER: the training has not begun.
 *   CAPSTAN_TIMEOUT, CAPSTAN_FAILED, CAPSTAN_LEFT: of calls with a time limit.
 *   CAPSTAN_OUT_OF_MEMORY: free memory and call again, or give up with capstan_close. If a push or
 *     pull was sent in part, the job fails, and the next call says so.
 *
 * Time limits. `timeout_ms` is the longest time to block, in milliseconds; below 0: no limit. After
 * CAPSTAN_TIMEOUT nothing is lost: call again to go on waiting.
 *
 * Threads. Any thread may call any function with a job, except capstan_close, which comes last.
 * capstan_values and capstan_gradient are memory that the library writes and reads while the
 * layer's exchange is open: from capstan_push until capstan_wait has returned CAPSTAN_OK.
 *
 * The process. The first capstan_connect lets malloc keep freed memory for later messages, and
 * sends warnings and errors to standard error. The library handles no signal. No function with a
 * job may be called in a signal handler, since they lock and allocate: let the handler set a flag.
 *
 * Fork. A job belongs to the process that called capstan_connect. In a child, every function that
 * returns a capstan_status returns CAPSTAN_FORKED and changes nothing, capstan_connect too. A
 * number is -1 there, a pointer is NULL, and capstan_close does nothing.
 *
 * Versions. A program that was built with an older capstan.h runs with a newer library: functions,
 * numbers and fields keep their meaning, structs grow at their end only, and fields that the
 * program does not know are 0. An older library refuses a struct that has grown since, so a program
 * may ask capstan_api_version first.
 */
#ifndef CAPSTAN_H_
#define CAPSTAN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function, a number or a field is added. */
#define CAPSTAN_API_VERSION 7

#define CAPSTAN_EXPORT __attribute__((visibility("default")))

typedef enum capstan_status {
  CAPSTAN_OK = 0,
  CAPSTAN_TIMEOUT = 1,          /* the time limit has passed; call again */
  CAPSTAN_INVALID_ARGUMENT = 2, /* an argument of the call; the job is unchanged */
  CAPSTAN_WRONG_ORDER = 3,      /* the call does not fit here, as a push before the start */
  CAPSTAN_FAILED = 4,           /* the job has failed, or cannot be reached */
  CAPSTAN_LEFT = 5,             /* the worker has left: capstan_leave was called, or it took a lost
                                   one's place after the others' last step */
  CAPSTAN_FORKED = 6,           /* the job belongs to the parent process */
  CAPSTAN_OUT_OF_MEMORY = 7     /* of the call itself; buffers that do not fit fail the job */
} capstan_status;

typedef enum capstan_dtype {
  CAPSTAN_FLOAT32 = 0,
  CAPSTAN_FLOAT16 = 1, /* IEEE 754 binary16 */
  CAPSTAN_BFLOAT16 = 2,
  /* Only of operations of all workers: */
  CAPSTAN_FLOAT64 = 3,
  CAPSTAN_INT64 = 4
} capstan_dtype;

typedef enum capstan_operation {
  CAPSTAN_SUM = 1,
  CAPSTAN_MEAN = 2, /* not of CAPSTAN_INT64 */
  CAPSTAN_MIN = 3,
  CAPSTAN_MAX = 4 /* of floats, as CAPSTAN_MIN: NaN if one is NaN */
} capstan_operation;

typedef enum capstan_optimizer_type {
  CAPSTAN_SGD = 1,
  CAPSTAN_MOMENTUM = 2, /* v = momentum v + g; w -= learning_rate v */
  CAPSTAN_NESTEROV = 3, /* v = momentum v + g; w -= learning_rate (g + momentum v) */
  CAPSTAN_ADAGRAD = 4,
  CAPSTAN_ADAM = 5,
  CAPSTAN_ADAMW = 6,
  CAPSTAN_ROW_ADAGRAD = 7, /* only of sparse tables: one sum of squares a row */
  CAPSTAN_FTRL = 8,        /* only of sparse tables: FTRL-proximal */
  CAPSTAN_RMSPROP = 9,
  CAPSTAN_LION = 10
} capstan_optimizer_type;

/* It has no size, and will not grow: capstan_dense_optimizer has further settings. The fields that
 * a type does not use are ignored. weight_decay is decoupled for ADAMW and LION (w is first
 * multiplied by 1 - learning_rate weight_decay), and for all others weight_decay w is added to the
 * gradient. The formulas are those of kernels/optimizers.h.
 */
typedef struct capstan_optimizer {
  int32_t type;         /* capstan_optimizer_type */
  double learning_rate; /* above 0, until capstan_set_learning_rate */
  double momentum;      /* MOMENTUM, NESTEROV, RMSPROP: 0 to below 1; capstan_set_momentum */
  double beta1;         /* ADAM, ADAMW, LION: 0 to below 1; capstan_set_momentum */
  double beta2;
  double epsilon; /* ADAGRAD, ADAM, ADAMW, RMSPROP: above 0 */
  double weight_decay;
} capstan_optimizer;

/* The optimizer of a dense table with all its settings. */
typedef struct capstan_dense_optimizer {
  size_t struct_size; /* sizeof(capstan_dense_optimizer) */
  capstan_optimizer basic;
  double alpha;     /* RMSPROP: decay of the mean of squares, 0 to below 1 */
  double dampening; /* MOMENTUM: part of each gradient, but the first, left out of v; 0 to 1 */
  int32_t centered; /* RMSPROP, not 0: divides by the variance's root */
  int32_t amsgrad;  /* ADAM, ADAMW, not 0: the largest second moment so far divides */
  int32_t maximize; /* Not 0: steps up the gradient */
} capstan_dense_optimizer;

/* Zeros are the defaults of every field but struct_size. Strings end in 0 and are copied. */
typedef struct capstan_connect_options {
  size_t struct_size; /* sizeof(capstan_connect_options) */

  /* HOST:PORT, or several with commas between them, tried in turn. NULL: the environment's
   * CAPSTAN_COORDINATOR, as set by capstan run. */
  const char* coordinator;
  /* Folder with this process's keys. NULL: CAPSTAN_KEYS; without it: plaintext. */
  const char* keys;
  /* Not 0: plaintext with keys, as --insecure of capstan_worker. */
  int32_t insecure;
  /* Not 0: the worker is `rank`, from 0. 0: it is the environment's CAPSTAN_RANK or RANK, or
   * without both the next free one. */
  int32_t has_rank;
  int32_t rank;
  /* Number of steps of every worker, if it is known. 0: capstan_finish tells it. */
  int64_t steps;
  /* Time of retries while the coordinator cannot be reached, in seconds. 0: 30. If it keeps its
   * state, it has the job's --coordinator_seconds once it has answered. */
  double rpc_deadline_seconds;
  /* What the worker computes on, for people: "cuda:0 (NVIDIA H200)". If it has no kind in
   * parentheses, the CPU's is added. NULL: "program". */
  const char* device;
  /* As the flags of capstan_worker with these names. NULL: none. */
  const char* trace;
  const char* record_history;
  const char* metrics_listen;
  const char* health_listen;
  /* Not 0, under BSP: the program's data, random draws and state depend on the job, the rank and
   * the step alone (capstan_step). So if this process is lost, another one can do its step again,
   * and the others wait for it (--replace_seconds). Say so in all workers. Operations of all
   * workers are then within steps: after a wait for values, and before capstan_end_step. */
  int32_t replaceable;
  /* Above 0: another process is the worker `rank`, with this incarnation (capstan_incarnation,
   * once its capstan_start has returned). This one exchanges some of its tables: both add the same
   * ones, and each is `elsewhere` in all processes of the worker but one. Distinct among these.
   * Such a process has no operations of all workers, no state of its own and no report; its steps
   * are those of the worker. */
  int32_t part;
  uint64_t incarnation;
  /* Of a worker that is several processes: how they share the model, for people, as "2 ranks"; at
   * most 200 bytes. A worker with another text than the first one's is refused. NULL: it is one
   * process. */
  const char* processes;
} capstan_connect_options;

/* One parameter tensor. The fields but struct_size may be 0. */
typedef struct capstan_table {
  size_t struct_size;    /* sizeof(capstan_table) */
  const char* name;      /* Required; no two tables have the same */
  const uint64_t* shape; /* `dimensions` sizes, each at least 1, outermost first */
  size_t dimensions;     /* 0: a single number */
  int32_t layer;         /* from 0; the layers of a job are 0, 1, ... without gaps */
  /* NULL: the job's. All workers give the same. */
  const capstan_optimizer* optimizer;
  /* Initial values, as many as the shape has, row-major; copied. Those of worker 0 count: the
   * others may give NULL, if `initial_from_worker` is not 0. In a job that goes on from a
   * checkpoint, or has --initial, nobody's count. */
  const void* initial;
  int32_t initial_dtype; /* capstan_dtype */
  /* Not 0: the initial values come from worker 0. 0: the server draws them from a normal
   * distribution around 0 with this standard deviation. All workers give the same. */
  int32_t initial_from_worker;
  double initial_stddev;
  /* NULL: `optimizer`. Else takes its place. */
  const capstan_dense_optimizer* dense_optimizer;
  /* Not 0: the program runs the optimizer, under BSP only. The first values are the parameters.
   * After a step in which a worker has a gradient, the values are the mean of the gradients of all
   * workers, with zeros for those that have none: capstan_updates has grown then. A NaN counts as
   * any other number. The servers hold the parameters beside it, as rank 0 gives them to
   * capstan_keep_table. The table has no optimizer then. A job that loses a worker fails. */
  int32_t replies_mean;
  int32_t reserved; /* 0 */
  /* Not 0: another process of this worker exchanges it (capstan_connect_options.part). It has no
   * values here. The first table is one of the process that is the worker. */
  int32_t elsewhere;
  int32_t reserved2; /* 0 */
  /* Not NULL: the table is consecutive rows of a tensor of this name, and the tables added right
   * before and after it with the same one are its other rows, in order. Files of models have the
   * tensor: those of capstan export, --output and --initial. */
  const char* tensor;
} capstan_table;

/* The optimizer of a sparse table. The formulas are those of server/sparse/row_optimizer.h. */
typedef struct capstan_row_optimizer {
  size_t struct_size;   /* sizeof(capstan_row_optimizer) */
  int32_t type;         /* SGD, ADAGRAD, ADAM, ROW_ADAGRAD or FTRL */
  double learning_rate; /* above 0; FTRL: its alpha */
  double epsilon;       /* ADAGRAD, ROW_ADAGRAD, ADAM: above 0 */
  double beta1;         /* ADAM: 0 to below 1 */
  double beta2;
  double beta; /* FTRL: above 0, lowers the first learning rates */
  double l1;   /* FTRL: 0 or more; values with a sum of gradients up to it are 0 */
  double l2;   /* FTRL: 0 or more; pulls values toward 0 */
} capstan_row_optimizer;

/* A table from any 64-bit keys to rows of `dim` values. A row comes into being when it is first
 * pushed. Until then its values are the initial ones, which depend on the job's seed, the table and
 * the key alone. All workers give the same. */
typedef struct capstan_sparse_table {
  size_t struct_size; /* sizeof(capstan_sparse_table) */
  const char* name;   /* Required; no two tables have the same */
  uint32_t dim;       /* 1 to 1024 */
  int32_t layer;      /* for its place in the order of sending; as in capstan_table */
  const capstan_row_optimizer* optimizer; /* NULL: the job's */
  double initial_stddev;                  /* of a normal distribution around 0; 0 for FTRL */
  uint32_t admitting_push;                /* a key has a row from this push on, 1 to 255; 0: 1 */
  uint64_t max_idle_steps; /* a row goes after more steps without push or pull; 0: it stays */
  uint64_t max_rows;       /* if there are more, those idle longest go, by shard; 0: any number */
} capstan_sparse_table;

/* Local steps: a step of the job is a round. In it a worker takes steps of its own, with an
 * optimizer of its own, and then pushes the values with which the round began minus its own as
 * gradient. Either sync_every or round_seconds is 0. All workers give the same. */
typedef struct capstan_local_steps {
  size_t struct_size;          /* sizeof(capstan_local_steps) */
  int64_t sync_every;          /* local steps of a round; 0: a round takes round_seconds */
  double round_seconds;        /* time of a round; 0: it has sync_every local steps */
  int32_t fragments;           /* parts of the layers, each pushed at its own moment of the round; a
                                  divisor of sync_every, at most 1024; 0: 1 */
  int32_t fragment_sync_delay; /* local steps from a fragment's push until its new values are taken
                                  in; below sync_every / fragments */
} capstan_local_steps;

typedef struct capstan_job capstan_job;

/* CAPSTAN_API_VERSION of the library. */
CAPSTAN_EXPORT int32_t capstan_api_version(void);
/* Capstan's version, such as "0.9.0". */
CAPSTAN_EXPORT const char* capstan_version(void);
/* The message of the calling thread's latest failed call. Valid until its next call. */
CAPSTAN_EXPORT const char* capstan_last_error(void);

/* Reads the job from its coordinator, and sets `*job`, which capstan_close frees. NULL options: all
 * from the environment. CAPSTAN_FAILED: the coordinator cannot be reached, or has a job for other
 * programs (its model is not "program"). CAPSTAN_INVALID_ARGUMENT: an option. Blocks for
 * rpc_deadline_seconds at most. */
CAPSTAN_EXPORT capstan_status capstan_connect(const capstan_connect_options* options,
                                              capstan_job** job);

/* Adds a table and sets `*id`: 0, 1, ... in order of the calls. Every worker adds the same tables
 * in the same order. CAPSTAN_INVALID_ARGUMENT: a field, the optimizer's fields, or without
 * an optimizer: the job's, which such a table cannot have. CAPSTAN_WRONG_ORDER: capstan_start was
 * called. */
CAPSTAN_EXPORT capstan_status capstan_add_table(capstan_job* job, const capstan_table* table,
                                                int32_t* id);
CAPSTAN_EXPORT capstan_status capstan_add_sparse_table(capstan_job* job,
                                                       const capstan_sparse_table* table,
                                                       int32_t* id);

/* Before capstan_start: each step of the job is a round of these local steps. The servers' momentum
 * (or beta1) is at most 0.5 then, unless the job is in BSP. CAPSTAN_INVALID_ARGUMENT: a field, or
 * the worker is replaceable; from capstan_start: a table is sparse or has more momentum.
 * CAPSTAN_WRONG_ORDER: capstan_start was called. */
CAPSTAN_EXPORT capstan_status capstan_set_local_steps(capstan_job* job,
                                                      const capstan_local_steps* local_steps);

/* Joins the job as a worker, waits until all its processes are there, and begins to pull the
 * values. Afterwards the functions below may be called. CAPSTAN_FAILED also if the job has no place
 * for this worker, or other workers have other tables or local steps.
 * CAPSTAN_INVALID_ARGUMENT: the layers have gaps. CAPSTAN_WRONG_ORDER: there is no table. */
CAPSTAN_EXPORT capstan_status capstan_start(capstan_job* job, int64_t timeout_ms);

/* The worker's rank, -1 before it has joined. The number of workers of the job. And the step that
 * comes next, -1 before capstan_start. The first step is 0, unless the job goes on from a
 * checkpoint or the worker has taken the place of a lost one. All are -1 without a job, and in a
 * child. */
CAPSTAN_EXPORT int32_t capstan_rank(const capstan_job* job);
CAPSTAN_EXPORT int32_t capstan_num_workers(const capstan_job* job);
/* The number of this worker's life, for capstan_connect_options.incarnation. 0 without a job, and
 * in a child. */
CAPSTAN_EXPORT uint64_t capstan_incarnation(const capstan_job* job);
CAPSTAN_EXPORT int64_t capstan_step(const capstan_job* job);
/* The number of steps that the job file names (--steps); 0: none. From capstan_connect on. -1
 * without a job, and in a child. */
CAPSTAN_EXPORT int64_t capstan_steps_of_job(const capstan_job* job);
/* Whether tables without a gradient in a step keep their values, 1 or 0: in BSP, unless codecs are
 * chosen while the job runs. From capstan_connect on. -1 without a job, and in a child. */
CAPSTAN_EXPORT int32_t capstan_keeps_values(const capstan_job* job);

/* The library's memory of a table, row-major float32, aligned to 64 bytes, valid until
 * capstan_close. NULL before capstan_start, without such a table, and in a child. Read values and
 * write gradients only while no exchange of the table's layer is open. A sparse table has none. */
CAPSTAN_EXPORT float* capstan_values(capstan_job* job, int32_t table);
CAPSTAN_EXPORT float* capstan_gradient(capstan_job* job, int32_t table);

/* Copies between the caller's memory (`count` elements of `dtype`) and the library's, converting.
 * A value is rounded to the nearest, ties to even. `count` is the number of the table's elements.
 * CAPSTAN_INVALID_ARGUMENT: there is no such table, or it has another `count`; `dtype`; or NULL. */
CAPSTAN_EXPORT capstan_status capstan_read_values(capstan_job* job, int32_t table, void* values,
                                                  size_t count, int32_t dtype);
CAPSTAN_EXPORT capstan_status capstan_write_gradient(capstan_job* job, int32_t table,
                                                     const void* gradient, size_t count,
                                                     int32_t dtype);

/* Waits until the layer's values are those of the step that comes next, or that is under way: as
 * new as the job's consistency demands. `layer` below 0: all layers' values.
 * CAPSTAN_INVALID_ARGUMENT: there is no such layer. */
CAPSTAN_EXPORT capstan_status capstan_wait(capstan_job* job, int32_t layer, int64_t timeout_ms);

/* Sends the layer's gradient of this step, which is complete in capstan_gradient, and asks for its
 * next values. Once a step. Waits first if the layer's values of this step are still on their way:
 * a gradient cannot come from values that never arrived. CAPSTAN_INVALID_ARGUMENT: there is no such
 * layer. CAPSTAN_WRONG_ORDER: the layer was pushed in this step, or all steps are done. */
CAPSTAN_EXPORT capstan_status capstan_push(capstan_job* job, int32_t layer, int64_t timeout_ms);

/* As capstan_push, of a layer without a gradient in this step: for programs that need the
 * next values before capstan_end_step. Push all layers before you wait for those of one: other
 * workers may wait for another layer. */
CAPSTAN_EXPORT capstan_status capstan_push_nothing(capstan_job* job, int32_t layer,
                                                   int64_t timeout_ms);
/* The number of updates in the table's values, after capstan_wait. -1 without such a dense table,
 * before capstan_start, after the last step, and in a child. */
CAPSTAN_EXPORT int64_t capstan_updates(capstan_job* job, int32_t table);

/* Sparse tables. Once a step, capstan_push_rows sends the gradients of some keys, in any order; the
 * gradients of a key that is there twice are added up. A table without a push in a step had no
 * gradient. For one table, call these and capstan_end_step from one thread at a time.
 * CAPSTAN_INVALID_ARGUMENT: the table is not a sparse one, a pointer is NULL though its count is
 * not 0, or there are too many keys for one message. CAPSTAN_WRONG_ORDER: all steps are done, and
 * this worker does not evaluate. */

/* Begins to pull the rows of `count` keys, with the values of the step that comes next or that is
 * under way, or after the table's push of that step with those of the next one; unless they were
 * fetched ahead. The keys are copied. Waits first if the table's last exchange is still under way:
 * after a push that can take until the other workers have pushed, so push all tables before, or use
 * `next_keys`. */
CAPSTAN_EXPORT capstan_status capstan_pull_rows(capstan_job* job, int32_t table,
                                                const uint64_t* keys, size_t count,
                                                int64_t timeout_ms);

/* Waits for the rows of the last capstan_pull_rows, or of the `next_keys` of a later
 * capstan_push_rows, and copies them to `rows`: `dim` values for each of these keys, in their
 * order. `count` is the number of all values; CAPSTAN_INVALID_ARGUMENT for another one. */
CAPSTAN_EXPORT capstan_status capstan_read_rows(capstan_job* job, int32_t table, float* rows,
                                                size_t count, int64_t timeout_ms);

/* Sends this step's gradients of the rows of `count` keys: `dim` values for each of them. They are
 * copied. Keys that were pulled last, in the same order, are not sent again. The rows of
 * `next_count` keys of the next step, if they are known, are fetched ahead with the same messages;
 * a capstan_pull_rows of the same keys then has nothing to send. CAPSTAN_INVALID_ARGUMENT also if a
 * gradient is NaN or infinite and the table has a lossy codec. CAPSTAN_WRONG_ORDER: the table was
 * pushed in this step, or all steps are done. */
CAPSTAN_EXPORT capstan_status capstan_push_rows(capstan_job* job, int32_t table,
                                                const uint64_t* keys, size_t count,
                                                const float* gradients, const uint64_t* next_keys,
                                                size_t next_count, int64_t timeout_ms);

/* The learning rate of the table's pushes from now on, instead of the optimizer's; finite, 0 or
 * more. `table` below 0: of all tables. In BSP one worker's counts for a step: the smallest rank's;
 * for a dense table the smallest rank's that has a gradient of it in the step. SSP and async divide
 * it as they divide every learning rate (--update_scale). CAPSTAN_INVALID_ARGUMENT: the number, or
 * there is no such table. */
CAPSTAN_EXPORT capstan_status capstan_set_learning_rate(capstan_job* job, int32_t table,
                                                        double learning_rate);

/* The momentum of the table's pushes from now on, instead of the optimizer's: of MOMENTUM, NESTEROV
 * and RMSPROP, if that began with one above 0; or beta1 of ADAM, ADAMW and LION. 0 to below 1.
 * `table` below 0: of all tables that have one. As for the learning rate one worker's counts in
 * BSP. CAPSTAN_INVALID_ARGUMENT: the number, or there is no such table; a sparse one is none. */
CAPSTAN_EXPORT capstan_status capstan_set_momentum(capstan_job* job, int32_t table,
                                                   double momentum);

/* The state of the servers' optimizers. That of a dense table is some arrays of as many numbers as
 * the table has, and the number of updates that the optimizer has counted. */

/* The number of these arrays: momentum, Nesterov: 1, v; Adagrad: 1, the sum of squares; Adam,
 * AdamW: 2, the moments, and with amsgrad a third, the largest second one; RMSprop: 1, the mean of
 * squares, then if it is centered the mean, then with momentum v; Lion: 1, the mean; SGD: 0. -1
 * without a job, without such a table, and in a child; 0 also of a sparse table. */
CAPSTAN_EXPORT int32_t capstan_optimizer_arrays(const capstan_job* job, int32_t table);

/* Waits for the layer's values of the step that comes next, or that is under way, and copies the
 * array that belongs to them to `values`; `*steps` is the optimizer's count. Under BSP, between two
 * steps, it belongs exactly to these values; under SSP and async it is as new as the server's.
 * CAPSTAN_INVALID_ARGUMENT: there is no such table or array, or it has another `count`.
 * CAPSTAN_WRONG_ORDER: all steps are done, and this worker does not evaluate. */
CAPSTAN_EXPORT capstan_status capstan_read_optimizer_state(capstan_job* job, int32_t table,
                                                           int32_t array, float* values,
                                                           size_t count, int64_t* steps,
                                                           int64_t timeout_ms);

/* Begins with this array, which is copied, and with this count, the same for all arrays of a table.
 * From capstan_add_table on until the first push; after capstan_start under BSP only. Worker 0's
 * count. A job that goes on from a checkpoint takes none. CAPSTAN_INVALID_ARGUMENT as above, or a
 * number is NaN or infinite, or `steps` below 0. CAPSTAN_WRONG_ORDER: it is too late, or may be:
 * under SSP and async the table's initial values have to come from worker 0, without --initial. */
CAPSTAN_EXPORT capstan_status capstan_load_optimizer_state(capstan_job* job, int32_t table,
                                                           int32_t array, const float* values,
                                                           size_t count, int64_t steps,
                                                           int64_t timeout_ms);

/* The state of a table with replies_mean, of which the servers have what rank 0 says: `arrays[0]`
 * are the parameters, the others (at most 16) are what the program's optimizer keeps, each with
 * `count` numbers, as many as the table has. They are copied. Rank 0 calls it before a step's
 * pushes if capstan_worker_state_due says so, and with `is_last` before capstan_finish, for
 * --output and readers, once. The calls of other ranks do nothing. After a restore the first values
 * of every rank are these parameters, and until the first push capstan_read_optimizer_state reads
 * the other arrays, from 0 on. CAPSTAN_INVALID_ARGUMENT: the table is another one, or a number of
 * arrays or numbers. */
CAPSTAN_EXPORT capstan_status capstan_keep_table(capstan_job* job, int32_t table,
                                                 const float* const* arrays, size_t num_arrays,
                                                 size_t count, int32_t is_last, int64_t timeout_ms);

/* What this worker keeps from step to step beside the parameters, in named pieces of bytes: counts,
 * statistics, the place in its data. They travel into checkpoints, and after a restore come back to
 * the worker of the same rank, from capstan_start on. A checkpoint that was cut before a step has
 * the pieces as they were when the step's first gradient was pushed, or at its end without one; at
 * the job's end, as they were in capstan_finish. Under SSP and async a step that is done again
 * after a restore may be in them already. At most 64 MiB together. A process that takes the place
 * of a lost worker while the others go on gets none. */

/* The piece is these bytes from now on; they are copied. The first call makes checkpoints wait for
 * the pieces. CAPSTAN_INVALID_ARGUMENT: no name, or too many bytes. CAPSTAN_WRONG_ORDER: before
 * capstan_start, or the job has no dense table. */
CAPSTAN_EXPORT capstan_status capstan_worker_state_put(capstan_job* job, const char* name,
                                                       const void* bytes, size_t size);
/* Sets `*size` to the length of the piece in the checkpoint, and copies it to `bytes` if `*size`
 * was enough. CAPSTAN_WRONG_ORDER: before capstan_start, or the checkpoint has no such piece, or
 * the job has begun anew. */
CAPSTAN_EXPORT capstan_status capstan_worker_state_get(capstan_job* job, const char* name,
                                                       void* bytes, size_t* size);
/* For pieces that are dear to make: sets `*is_due` to 1 if a checkpoint waits for them, or for
 * capstan_keep_table, and to 0 if not. Call it before each step's computation; who has called it
 * once puts pieces only when it says so, and before capstan_finish. Waits for the values of the
 * first dense table, and of those with replies_mean. */
CAPSTAN_EXPORT capstan_status capstan_worker_state_due(capstan_job* job, int32_t* is_due,
                                                       int64_t timeout_ms);

/* What all workers do together beside the parameters, under BSP only: losses, counts, decisions.
 * Every worker makes the same calls in the same order, with the same shape, from capstan_start
 * until capstan_finish; workers that differ fail the job, which names them and what they called.
 * The results have the same bits at all workers and in all runs: values are combined in order of
 * rank. At most 1 MiB: larger tensors belong into tables. One thread at a time.
 * CAPSTAN_INVALID_ARGUMENT: an argument. CAPSTAN_WRONG_ORDER: the job is not in BSP, another
 * operation has not ended, or the worker has finished. After CAPSTAN_TIMEOUT the same call, with
 * the same values, goes on. */

/* Puts the sum (or mean, minimum, maximum) over the workers in place of `count` elements of
 * `dtype`: CAPSTAN_FLOAT32, CAPSTAN_FLOAT64 or CAPSTAN_INT64, whose sums wrap. */
CAPSTAN_EXPORT capstan_status capstan_all_reduce(capstan_job* job, int32_t operation, void* values,
                                                 size_t count, int32_t dtype, int64_t timeout_ms);
/* As capstan_all_reduce, of a tensor with `num_dims` dimensions, at most 64, of the sizes `shape`.
 * 0 dimensions: one element, and `shape` may be NULL. Workers whose shapes differ fail the job,
 * also if they have as many elements. capstan_all_reduce has the one dimension `count`. */
CAPSTAN_EXPORT capstan_status capstan_all_reduce_tensor(capstan_job* job, int32_t operation,
                                                        void* values, const uint64_t* shape,
                                                        size_t num_dims, int32_t dtype,
                                                        int64_t timeout_ms);
/* Puts those of the worker `root` in place of `count` elements. */
CAPSTAN_EXPORT capstan_status capstan_broadcast(capstan_job* job, int32_t root, void* values,
                                                size_t count, int32_t dtype, int64_t timeout_ms);
/* As capstan_broadcast, of a tensor as in capstan_all_reduce_tensor. */
CAPSTAN_EXPORT capstan_status capstan_broadcast_tensor(capstan_job* job, int32_t root, void* values,
                                                       const uint64_t* shape, size_t num_dims,
                                                       int32_t dtype, int64_t timeout_ms);
/* Waits until all workers have called it. */
CAPSTAN_EXPORT capstan_status capstan_barrier(capstan_job* job, int64_t timeout_ms);

/* Sets `*stops` to 1 if the flag of any worker is not 0: then all end their loops after the step
 * that goes on, or has just ended. capstan_finish takes that, too, if more steps were announced (as
 * a job with checkpoints has to), but not in a job that stays. */
CAPSTAN_EXPORT capstan_status capstan_stop(capstan_job* job, int32_t flag, int32_t* stops,
                                           int64_t timeout_ms);

/* For workers with fewer batches. This worker has no more gradients: it waits until another one has
 * pushed the step that comes next, and sets `*others_go_on` to 1. Then end that step, which has no
 * gradient here and counts as zeros in the mean, and call again; until it is 0: no worker has more,
 * and all have done equally many steps, after which they may end as after capstan_stop. Every
 * worker calls it after its last batch. The operations above, of workers that have not called it,
 * are theirs alone meanwhile. */
CAPSTAN_EXPORT capstan_status capstan_join(capstan_job* job, int32_t* others_go_on,
                                           int64_t timeout_ms);

/* Within a round, before capstan_end_step: what it was, for progress and reports. `local_steps`
 * were done in it; `drift` is the norm of the gradients over the norm of the values, NaN: not
 * known. The latest call counts. CAPSTAN_INVALID_ARGUMENT: a number below 0. CAPSTAN_WRONG_ORDER:
 * there are no local steps. */
CAPSTAN_EXPORT capstan_status capstan_note_round(capstan_job* job, int64_t local_steps,
                                                 double drift);

/* Ends a step. Layers that were not pushed in it had no gradient: they send a push without one,
 * which changes nothing unless another worker has a gradient. `loss` is the mean over `samples`
 * samples, for progress and reports; NaN or 0 samples: not known. CAPSTAN_WRONG_ORDER: all steps
 * are done. */
CAPSTAN_EXPORT capstan_status capstan_end_step(capstan_job* job, double loss, uint64_t samples,
                                               int64_t timeout_ms);

/* No further step. Waits until all workers have done their steps. All workers do the same number of
 * steps, else the job fails and says so. One worker evaluates: `*is_evaluator` is 1, and its values
 * are the final ones, exactly. For the others it is 0 after the job's end, and their values are
 * those of their last step. CAPSTAN_WRONG_ORDER: a step is under way, no step was done, or fewer
 * than were announced, without capstan_stop. */
CAPSTAN_EXPORT capstan_status capstan_finish(capstan_job* job, int32_t* is_evaluator,
                                             int64_t timeout_ms);

/* The evaluator's result, for the summary of the job: accuracy (0 to 1) and mean loss over
 * `samples` held-out samples; NaN: not known. Without this call the job ends without them. Waits
 * for the job's end. CAPSTAN_INVALID_ARGUMENT: the accuracy. CAPSTAN_WRONG_ORDER: capstan_finish
 * has not made this worker the evaluator. */
CAPSTAN_EXPORT capstan_status capstan_report(capstan_job* job, double test_accuracy,
                                             double test_loss, uint64_t samples,
                                             int64_t timeout_ms);

/* From capstan_start on: leaves the job between two steps. The others go on, and another process
 * may take this one's place. May be called while other calls wait; those return CAPSTAN_LEFT once
 * the worker has left. Not in a signal handler. CAPSTAN_WRONG_ORDER: before capstan_start was
 * called, when the job is over for this process, and in a worker of several processes. */
CAPSTAN_EXPORT capstan_status capstan_leave(capstan_job* job);

/* Ends the whole job with this reason, such as an exception's text. Does nothing if the job is over
 * for this process. Before the first step it tells the coordinator, and waits for the answer. */
CAPSTAN_EXPORT capstan_status capstan_fail(capstan_job* job, const char* reason);

/* Frees the job. Between capstan_start and capstan_finish it fails the job, unless it has ended, or
 * capstan_leave was called and no step is under way. After capstan_finish, an evaluator that has
 * not reported does so without figures. Before capstan_start nobody hears of it. Waits some seconds
 * for the worker's end. NULL is allowed. */
CAPSTAN_EXPORT void capstan_close(capstan_job* job);

#ifdef __cplusplus
}
#endif

#endif /* CAPSTAN_H_ */
