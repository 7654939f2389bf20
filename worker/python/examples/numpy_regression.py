"""Linear regression with NumPy:

    python -m capstan run --num_workers=2 --worker_command="python numpy_regression.py"
"""

import numpy

import capstan

STEPS, BATCH = 300, 32
TRUE_WEIGHTS = numpy.array([2, -1, 0.5, 3], dtype=numpy.float32)
TRUE_BIAS = 4


def batch(random):
    """Samples with a little noise."""
    x = random.normal(size=(BATCH, 4)).astype(numpy.float32)
    return x, x @ TRUE_WEIGHTS + TRUE_BIAS + 0.01 * random.normal(size=BATCH)


def main():
    with capstan.connect(steps=STEPS) as job:
        optimizer = capstan.SGD(lr=0.05, momentum=0.9)
        weights = job.table("weights", (4,), optimizer=optimizer, stddev=0.1)
        bias = job.table("bias", numpy.zeros(1), optimizer=optimizer)
        job.start()
        random = numpy.random.default_rng(job.rank)
        for _ in range(job.step, STEPS):
            x, y = batch(random)
            error = x @ weights.values + bias.values - y
            weights.push_pull(x.T @ error / BATCH)  # the mean of all workers' gradients counts
            bias.push_pull(error.mean(keepdims=True))
            job.end_step(loss=(error ** 2).mean(), samples=BATCH)
        if job.finish():
            distance = abs(weights.values - TRUE_WEIGHTS).max()
            print(f"weights {weights.values.round(2)}, bias {bias.values.round(2)}")
            job.report(test_loss=distance, samples=1)


if __name__ == "__main__":
    main()
