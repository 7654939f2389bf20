"""Logistic regression of clicks, with a weight for each user and each item:

    python -m capstan run --num_workers=2 --worker_command="python sparse_regression.py"
"""

import numpy

import capstan

STEPS, BATCH, USERS, ITEMS = 600, 256, 1000, 300


def batch(random):
    """Who saw what, as 64-bit keys, and whether they clicked: more often for even numbers."""
    user = random.integers(USERS, size=BATCH)
    item = random.integers(ITEMS, size=BATCH)
    logit = 3 * (1 - 2 * (user % 2)) + (1 - 2 * (item % 2))
    clicks = random.random(BATCH) < 1 / (1 + numpy.exp(-logit))
    keys = numpy.stack([user, item + 2**32], axis=1)
    return keys, clicks.astype(numpy.float32)


def main():
    with capstan.connect(steps=STEPS) as job:
        weights = job.sparse_table("weights", 1, optimizer=capstan.FTRL(lr=0.5, l1=0.001))
        job.start()
        random = numpy.random.default_rng(job.rank)
        keys, clicks = batch(random)
        for _ in range(job.step, STEPS):
            logits = weights.pull(keys).sum(axis=(1, 2))
            error = 1 / (1 + numpy.exp(-logits)) - clicks
            # FTRL wants the sum of all samples; BSP takes the mean of the workers.
            gradients = numpy.repeat(job.num_workers * error[:, None, None], 2, axis=1)
            loss = numpy.logaddexp(0, numpy.where(clicks > 0, -logits, logits)).mean()
            next_keys, clicks = batch(random)
            weights.push(keys, gradients, next_keys=next_keys)  # and fetches the next rows ahead
            job.end_step(loss=loss, samples=BATCH)
            keys = next_keys
        if job.finish():
            logits = weights.pull(keys).sum(axis=(1, 2))
            job.report(test_accuracy=((logits > 0) == (clicks > 0)).mean(), samples=BATCH)


if __name__ == "__main__":
    main()
