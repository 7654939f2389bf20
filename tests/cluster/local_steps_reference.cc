#include "tests/cluster/local_steps_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "server/slice/slice_values.h"
#include "worker/engine/cpu_engine.h"
#include "worker/runtime/job_setup.h"

namespace capstan {
namespace {

using Array = std::vector<double>;
using Arrays = std::vector<Array>;  // one for each table: weight and bias of each layer

// Adds the gradient of the mean loss of these samples to `gradients`.
void AddGradient(const Dataset& data, absl::Span<const uint32_t> samples, const Arrays& values,
                 Arrays& gradients) {
  const size_t layers = values.size() / 2;
  for (const uint32_t sample : samples) {
    const absl::Span<const float> row = data.Row(sample);
    Arrays inputs = {Array(row.begin(), row.end())};  // of each layer, and the scores
    for (size_t layer = 0; layer < layers; ++layer) {
      const Array& weight = values[2 * layer];
      Array outputs = values[2 * layer + 1];
      for (size_t i = 0; i < inputs[layer].size(); ++i) {
        for (size_t o = 0; o < outputs.size(); ++o) {
          outputs[o] += inputs[layer][i] * weight[i * outputs.size() + o];
        }
      }
      for (double& output : outputs) {
        if (layer + 1 < layers) output = std::max(output, 0.0);
      }
      inputs.push_back(outputs);
    }
    Array error = inputs.back();  // derivatives by the scores: softmax less the label
    double sum = 0;
    for (double& score : error) sum += score = std::exp(score);
    for (double& share : error) share /= sum;
    error[data.labels[sample]] -= 1;
    for (double& share : error) share /= static_cast<double>(samples.size());
    for (size_t layer = layers; layer-- > 0;) {
      Array below(inputs[layer].size());
      for (size_t i = 0; i < below.size(); ++i) {
        for (size_t o = 0; o < error.size(); ++o) {
          gradients[2 * layer][i * error.size() + o] += inputs[layer][i] * error[o];
          if (inputs[layer][i] > 0) below[i] += error[o] * values[2 * layer][i * error.size() + o];
        }
      }
      for (size_t o = 0; o < error.size(); ++o) gradients[2 * layer + 1][o] += error[o];
      error = below;
    }
  }
}

struct LocalWorker {
  Arrays values, bases, pushed, first, second;
  int64_t steps = 0;
};

void StepAlone(const v1::LocalOptimizerSpec& spec, const Arrays& gradients, LocalWorker& worker) {
  ++worker.steps;
  const auto t = static_cast<double>(worker.steps);
  for (size_t table = 0; table < gradients.size(); ++table) {
    for (size_t i = 0; i < gradients[table].size(); ++i) {
      const double gradient = gradients[table][i];
      double& value = worker.values[table][i];
      if (spec.type() == v1::OptimizerSpec::SGD) {
        value -= spec.learning_rate() * gradient;
        continue;
      }
      double& first = worker.first[table][i];
      double& second = worker.second[table][i];
      first = spec.beta1() * first + (1 - spec.beta1()) * gradient;
      second = spec.beta2() * second + (1 - spec.beta2()) * gradient * gradient;
      const double mean = first / (1 - std::pow(spec.beta1(), t));
      const double root = std::sqrt(second / (1 - std::pow(spec.beta2(), t)));
      value -=
          spec.learning_rate() * (mean / (root + spec.epsilon()) + spec.weight_decay() * value);
    }
  }
}

Arrays Zeros(const Arrays& like) {
  Arrays zeros;
  for (const Array& array : like) zeros.emplace_back(array.size());
  return zeros;
}

}  // namespace

std::vector<std::vector<double>> TrainWithLocalSteps(const v1::JobSpec& job) {
  JobSetup setup = PrepareJob(job, MakeCpuEngine, /*clock=*/nullptr).value();
  Arrays values;
  for (const v1::TableSpec& table : setup.engine->tables()) {
    std::vector<float> initial(ElementCount(table));
    InitializeValues(job.seed(), TableId(static_cast<uint32_t>(values.size())),
                     table.initial_stddev(), /*offset=*/0, absl::MakeSpan(initial));
    values.emplace_back(initial.begin(), initial.end());
  }
  Arrays velocities = Zeros(values);
  const v1::LocalStepsSpec& rounds = job.training().local_steps();
  const int64_t each = rounds.sync_every() / rounds.fragments();
  const int64_t delay = rounds.fragment_sync_delay();
  const size_t tables = values.size() / rounds.fragments();  // of a fragment
  std::vector<LocalWorker> workers(
      job.cluster().num_workers(),
      {values, values, values, Zeros(values), Zeros(values), /*steps=*/0});
  const int64_t end = static_cast<int64_t>(job.training().steps()) * rounds.sync_every();
  for (int64_t done = 1; done <= end; ++done) {
    for (size_t w = 0; w < workers.size(); ++w) {
      Arrays gradients = Zeros(values);
      AddGradient(setup.data.train,
                  setup.sampler->Indices(WorkerId(static_cast<uint32_t>(w)), Step(done - 1)),
                  workers[w].values, gradients);
      StepAlone(rounds.optimizer(), gradients, workers[w]);
    }
    // The fragment that is pushed now, and the one that is taken now.
    const bool pushes = done % each == 0;
    const size_t pushed =
        static_cast<size_t>(done / each + rounds.fragments() - 1) % rounds.fragments() * tables;
    for (size_t table = pushed; pushes && table < pushed + tables; ++table) {
      for (size_t i = 0; i < values[table].size(); ++i) {
        double gradient = 0;
        for (LocalWorker& worker : workers) {
          worker.pushed[table][i] = worker.values[table][i];
          gradient += (worker.bases[table][i] - worker.values[table][i]) /
                      static_cast<double>(workers.size());
        }
        double& velocity = velocities[table][i];
        velocity = job.optimizer().momentum() * velocity + gradient;
        values[table][i] -=
            job.optimizer().learning_rate() * (gradient + job.optimizer().momentum() * velocity);
      }
    }
    const bool takes = done >= each + delay && (done - delay) % each == 0;
    const size_t taken = static_cast<size_t>((done - delay) / each + rounds.fragments() - 1) %
                         rounds.fragments() * tables;
    for (size_t table = taken; takes && table < taken + tables; ++table) {
      for (LocalWorker& worker : workers) {
        for (size_t i = 0; i < values[table].size(); ++i) {
          worker.values[table][i] += values[table][i] - worker.pushed[table][i];
        }
        worker.bases[table] = values[table];
      }
    }
  }
  return values;
}

}  // namespace capstan
