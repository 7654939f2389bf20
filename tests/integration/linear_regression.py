#!/usr/bin/python3
"""A worker of its own: trains linear regression with the Python package, without NumPy.
Usage: linear_regression.py [--steps=N] [--step_seconds=S] [--unknown_steps] [--wait_for=FILE]
       [--health_listen=HOST:PORT] [--metrics_listen=HOST:PORT] [--fail_after]
PYTHONPATH has the folder of the package. With --unknown_steps the job hears of N at the end only.
With --wait_for, worker 0 waits in the middle until there is the file. With --fail_after, worker 1 fails when the job is done."""

import argparse
import os
import random
import sys
import time

import capstan

TRUE_WEIGHTS = (2.0, -3.0, 0.5)
TRUE_BIAS = 1.0
SAMPLES = 16


def samples(seed):
    numbers = random.Random(seed)
    for _ in range(SAMPLES):
        features = [numbers.uniform(-1, 1) for _ in TRUE_WEIGHTS]
        yield features, TRUE_BIAS + sum(w * x for w, x in zip(TRUE_WEIGHTS, features))


def loss_and_gradient(weights, bias, data):
    """The mean squared error, halved, and its derivatives."""
    loss, of_weights, of_bias = 0.0, [0.0] * len(TRUE_WEIGHTS), 0.0
    for features, target in data:
        error = bias[0] + sum(weights[i] * x for i, x in enumerate(features)) - target
        loss += error * error / 2 / SAMPLES
        of_bias += error / SAMPLES
        of_weights = [g + error * x / SAMPLES for g, x in zip(of_weights, features)]
    return loss, of_weights, of_bias


def train(job, arguments):
    """The values begin at random, near 0."""
    weights = job.table('weights', (len(TRUE_WEIGHTS),), stddev=0.1)
    bias = job.table('bias', (1,), stddev=0.1)
    job.start()
    print(f'joined as worker {job.rank}', flush=True)
    values = weights.values_buffer(), bias.values_buffer()
    while job.step < arguments.steps:
        weights.wait()
        bias.wait()
        data = samples(f'{job.rank}, {job.step}')
        loss, of_weights, of_bias = loss_and_gradient(*values, data)
        weights.gradient_buffer()[:] = of_weights
        bias.gradient_buffer()[0] = of_bias
        time.sleep(arguments.step_seconds)
        while arguments.wait_for and job.rank == 0 and job.step == arguments.steps // 2:
            if os.path.exists(arguments.wait_for):
                break
            time.sleep(0.01)
        weights.push_pull()
        bias.push_pull()
        job.end_step(loss, SAMPLES)
    if job.finish():
        job.report(test_loss=loss_and_gradient(*values, samples('test'))[0], samples=SAMPLES)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=100)
    parser.add_argument('--step_seconds', type=float, default=0)
    parser.add_argument('--unknown_steps', action='store_true')
    parser.add_argument('--wait_for')
    parser.add_argument('--health_listen')
    parser.add_argument('--metrics_listen')
    parser.add_argument('--fail_after', action='store_true')
    arguments = parser.parse_args()
    with capstan.connect(steps=0 if arguments.unknown_steps else arguments.steps,
                         metrics_listen=arguments.metrics_listen,
                         health_listen=arguments.health_listen) as job:
        train(job, arguments)
    if arguments.fail_after and os.environ.get('RANK') == '1':
        sys.exit('linear_regression: the disk is full')


if __name__ == '__main__':
    main()
