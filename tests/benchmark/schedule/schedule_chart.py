#!/usr/bin/env python3
"""Draws the output of schedule_benchmark.sh: step times over their lower bound, a panel a model.

Usage: schedule_chart.py < LINES.json > CHART.svg
"""

import json
import math
import sys

SCHEDULES = (("tensor_fifo", "#9e9e9e"), ("slice_fifo", "#4878a8"), ("priority", "#c03028"))
WIDTH, HEIGHT = 380, 300  # of a panel
LEGEND_WIDTH = 520
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 44, 44  # around its axes


class Panel:
    """The points of one model, on axes of their own: log2 of the ratio, times over the bound."""

    def __init__(self, model, points, left):
        self.model = model
        self.points = sorted(points, key=lambda point: point["ratio"])
        self.left = left
        self.largest = max(self.height_of(point, name)
                           for point in points for name, _ in SCHEDULES if name + "_s" in point)
        self.top = max(1.5, math.ceil(self.largest * 4) / 4)

    @staticmethod
    def height_of(point, schedule):
        return point[schedule + "_s"] / point["lower_bound_s"]

    def x(self, ratio):
        low, high = (math.log2(self.points[i]["ratio"]) for i in (0, -1))
        share = (math.log2(ratio) - low) / (high - low) if high > low else 0.5
        return self.left + LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, height):
        return HEIGHT - BOTTOM - (height - 1) / (self.top - 1) * (HEIGHT - TOP - BOTTOM)

    def axes(self):
        first = self.points[0]
        title = f'{self.model}, 1/{first["scale"]} of its size, {first["gbit"]} Gbit/s'
        yield text(self.left + LEFT, 18, title, weight="bold")
        middle = self.left + (LEFT + WIDTH - RIGHT) / 2
        yield text(middle, HEIGHT - 8, "communication / compute", anchor="middle")
        step = 0.25 if self.top <= 2.5 else 0.5
        for i in range(int((self.top - 1) / step) + 1):
            y = self.y(1 + i * step)
            color = "#555" if i == 0 else "#ddd"
            yield line(self.left + LEFT, y, self.left + WIDTH - RIGHT, y, color)
            yield text(self.left + LEFT - 6, y + 4, f"{1 + i * step:.2f}", anchor="end")
        for point in self.points:
            yield text(self.x(point["ratio"]), HEIGHT - BOTTOM + 18, f'{point["ratio"]:g}',
                       anchor="middle")

    def lines(self):
        for schedule, color in SCHEDULES:
            corners = [(self.x(point["ratio"]), self.y(self.height_of(point, schedule)))
                       for point in self.points if schedule + "_s" in point]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
            yield (f'<polyline class="{schedule}" points="{path}" fill="none" stroke="{color}" '
                   'stroke-width="2"/>')
            for x, y in corners:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'


def text(x, y, words, anchor="start", weight="normal", color="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" '
            f'fill="{color}">{words}</text>')


def line(x1, y1, x2, y2, color):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def legend():
    x = LEFT
    for words, color in SCHEDULES + (("1.00 is the lower bound", "#555"),):
        yield line(x, 30, x + 16, 30, color)
        yield text(x + 20, 34, words, color=color)
        x += 32 + 7 * len(words)


def chart(points):
    models = list(dict.fromkeys(point["model"] for point in points))
    panels = [Panel(model, [point for point in points if point["model"] == model], i * WIDTH)
              for i, model in enumerate(models)]
    width = max(WIDTH * len(panels), LEGEND_WIDTH)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
           f'width="{width}" height="{HEIGHT}" font-family="sans-serif" font-size="12">')
    yield f'<rect width="{width}" height="{HEIGHT}" fill="white"/>'
    yield from legend()
    for panel in panels:
        yield from panel.axes()
        yield from panel.lines()
    yield "</svg>"


def main():
    points = [json.loads(text_line) for text_line in sys.stdin if text_line.startswith("{")]
    if not points:
        sys.exit("schedule_chart: expected lines of schedule_benchmark.sh on standard input")
    print("\n".join(chart(points)))


if __name__ == "__main__":
    main()
