/* Fits y = w0 + w1 x by least squares on several workers, each with samples of its own. */
#include <capstan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 200, SAMPLES = 64, WITHOUT_LIMIT = -1 };

/* Ends the program with the library's message unless the call has succeeded. */
static void check(capstan_status status, const char* call) {
  if (status == CAPSTAN_OK) return;
  fprintf(stderr, "%s: %s\n", call, capstan_last_error());
  exit(1);
}

/* A sample's input: between -1 and 1, different for each worker and step. */
static float input(int rank, int64_t step, int sample) {
  const uint32_t number = (uint32_t)((step * 31 + rank) * SAMPLES + sample);
  return (float)(number * 2654435761u >> 8) / (1 << 23) - 1;
}

static float target(float x) { return 2.0f + 3.0f * x; }

/* Writes the gradient of half the mean squared error, and returns the error. */
static double compute_gradient(const float* w, int rank, int64_t step, float* gradient) {
  double error = 0;
  gradient[0] = gradient[1] = 0;
  for (int i = 0; i < SAMPLES; ++i) {
    const float x = input(rank, step, i);
    const float difference = w[0] + w[1] * x - target(x);
    gradient[0] += difference / SAMPLES;
    gradient[1] += difference * x / SAMPLES;
    error += difference * difference / SAMPLES;
  }
  return error / 2;
}

int main(void) {
  capstan_job* job;
  check(capstan_connect(NULL, &job), "capstan_connect");

  const uint64_t shape[] = {2};
  const float zeros[2] = {0, 0};
  capstan_optimizer optimizer = {0};
  optimizer.type = CAPSTAN_SGD;
  optimizer.learning_rate = 0.5;
  capstan_table table = {0};
  table.struct_size = sizeof(table);
  table.name = "w";
  table.shape = shape;
  table.dimensions = 1;
  table.optimizer = &optimizer;
  table.initial = zeros;
  table.initial_from_worker = 1;
  int32_t id;
  check(capstan_add_table(job, &table, &id), "capstan_add_table");
  check(capstan_start(job, WITHOUT_LIMIT), "capstan_start");

  const float* w = capstan_values(job, id);
  float* gradient = capstan_gradient(job, id);
  const int rank = capstan_rank(job);
  while (capstan_step(job) < STEPS) {
    check(capstan_wait(job, 0, WITHOUT_LIMIT), "capstan_wait");
    const double loss = compute_gradient(w, rank, capstan_step(job), gradient);
    check(capstan_push(job, 0, WITHOUT_LIMIT), "capstan_push");
    check(capstan_end_step(job, loss, SAMPLES, WITHOUT_LIMIT), "capstan_end_step");
  }

  int32_t is_evaluator;
  check(capstan_finish(job, &is_evaluator, WITHOUT_LIMIT), "capstan_finish");
  printf("worker %d of %d: y = %.4f + %.4f x\n", rank, (int)capstan_num_workers(job), w[0], w[1]);
  const int is_near = fabs(w[0] - 2) < 1e-3 && fabs(w[1] - 3) < 1e-3;
  if (is_evaluator) {
    check(capstan_report(job, is_near, NAN, SAMPLES, WITHOUT_LIMIT), "capstan_report");
  }
  capstan_close(job);
  return is_near ? 0 : 1;
}
