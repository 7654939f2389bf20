#!/usr/bin/env python3
"""Draws the output of compression_benchmark.sh: how many times faster a step is with each codec.

Usage: compression_chart.py < LINES.json > CHART.svg
"""

import json
import math
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "schedule"))
from schedule_chart import line, text  # pylint: disable=wrong-import-position

COLORS = ("#4878a8", "#c03028", "#3a8a50", "#8060a8", "#b07820", "#777777")
WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 44, 44  # around the axes


def times_faster(point):
    return point["float32_step_s"] / point["step_s"]


class Axes:
    """Both are logarithms of base 2."""

    def __init__(self, points):
        self.rates = sorted({point["gbit"] for point in points})
        heights = [math.log2(times_faster(point)) for point in points]
        self.low, self.high = math.floor(min(heights + [-1])), math.ceil(max(heights + [1]))

    def x(self, gbit):
        low, high = (math.log2(self.rates[i]) for i in (0, -1))
        share = (math.log2(gbit) - low) / (high - low) if high > low else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, times):
        share = (math.log2(times) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def draw(self):
        for power in range(self.low, self.high + 1):
            y = self.y(2 ** power)
            yield line(LEFT, y, WIDTH - RIGHT, y, "#555" if power == 0 else "#ddd")
            yield text(LEFT - 6, y + 4, f"{2.0 ** power:g}", anchor="end")
        for gbit in self.rates:
            yield text(self.x(gbit), HEIGHT - BOTTOM + 18, f"{gbit:g}", anchor="middle")
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "Gbit/s of each link", anchor="middle")


def chart(points):
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">')
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    yield text(LEFT, 18, "times faster than float32", weight="bold")
    axes = Axes(points)
    yield from axes.draw()
    x = LEFT
    for i, codec in enumerate(dict.fromkeys(point["codec"] for point in points)):
        color = COLORS[i % len(COLORS)]
        yield line(x, 32, x + 16, 32, color)
        yield text(x + 20, 36, codec, color=color)
        x += 44 + 7 * len(codec)
        corners = [(axes.x(point["gbit"]), axes.y(times_faster(point)))
                   for point in sorted(points, key=lambda point: point["gbit"])
                   if point["codec"] == codec]
        path = " ".join(f"{x_:.1f},{y:.1f}" for x_, y in corners)
        yield (f'<polyline class="{codec}" points="{path}" fill="none" stroke="{color}" '
               'stroke-width="2"/>')
        for x_, y in corners:
            yield f'<circle cx="{x_:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
    yield "</svg>"


def main():
    points = [json.loads(text_line) for text_line in sys.stdin if text_line.startswith("{")]
    if not points:
        sys.exit("compression_chart: expected lines of compression_benchmark.sh on standard input")
    print("\n".join(chart(points)))


if __name__ == "__main__":
    main()
