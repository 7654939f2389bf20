// Draws charts, as struct Chart of deploy/cli/report/chart_page.h, into elements of a page. Needs d3,
// version 3.
var CapstanCharts = (function () {
  'use strict';
  var height = 300;
  var margin = {top: 10, right: 14, bottom: 42, left: 62};
  var innerHeight = height - margin.top - margin.bottom;
  var palette = ['#0072b2', '#e69f00', '#009e73', '#cc4778', '#56b4e9', '#8c564b', '#7f5fb5',
                 '#b8a000', '#d55e00', '#5f6b6d'];

  function color(chart, index) {
    return chart.series[index].is_emphasized ? 'var(--ink, #222)' : palette[index % palette.length];
  }

  function number(value) {
    if (value !== 0 && Math.abs(value) < 0.001) return d3.format('.1e')(value);
    if (Math.abs(value) >= 10000) return d3.format('.3s')(value);
    return String(+value.toPrecision(4));
  }

  function allPoints(chart) { return d3.merge(chart.series.map(function (s) { return s.points; })); }

  function yDomain(chart) {
    var values = allPoints(chart).map(function (p) { return p[1]; });
    if (chart.kind === 'stacked_bars') {
      values = chart.categories.map(function (unused, i) {
        return d3.sum(chart.series, function (s) { return s.points[i] ? s.points[i][1] : 0; });
      });
    }
    var top = d3.max(values) || 1;
    return chart.is_log ? [d3.min(values.filter(function (v) { return v > 0; })) || 0.1, top]
                        : [0, top * 1.04];
  }

  function drawAxes(chart, group, x, y, innerWidth) {
    var xAxis = d3.svg.axis().scale(x).orient('bottom').tickSize(5).tickPadding(5).outerTickSize(0);
    if (chart.kind === 'lines') {
      xAxis.ticks(Math.min(7, innerWidth / 70)).tickFormat(number).tickSize(-innerHeight, 0);
    } else {
      var every = Math.ceil(chart.categories.length / (innerWidth / 30));
      xAxis.tickValues(chart.categories.filter(function (unused, i) { return i % every === 0; }));
    }
    var yAxis = d3.svg.axis().scale(y).orient('left').tickSize(-innerWidth, 0).tickPadding(6);
    if (chart.is_log) {
      yAxis.tickValues(y.ticks().filter(function (v) {
        return [1, 2, 5].indexOf(Math.round(v / Math.pow(10, Math.floor(Math.log(v) / Math.LN10 + 1e-9)))) >= 0;
      }));
      yAxis.tickFormat(number);
    } else {
      yAxis.ticks(6).tickFormat(number);
    }
    group.append('g').attr('class', 'axis x').attr('transform', 'translate(0,' + innerHeight + ')')
        .call(xAxis);
    group.append('g').attr('class', 'axis y').call(yAxis);
    group.append('text').attr('class', 'label').attr('text-anchor', 'middle')
        .attr('x', innerWidth / 2).attr('y', innerHeight + 36).text(chart.x_label);
    group.append('text').attr('class', 'label').attr('text-anchor', 'middle')
        .attr('transform', 'rotate(-90)').attr('x', -innerHeight / 2).attr('y', -48)
        .text(chart.y_label);
  }

  function drawLines(chart, group, innerWidth) {
    var x = d3.scale.linear().range([0, innerWidth])
        .domain([0, d3.max(allPoints(chart), function (p) { return p[0]; }) || 1]);
    var y = (chart.is_log ? d3.scale.log() : d3.scale.linear()).range([innerHeight, 0])
        .domain(yDomain(chart));
    drawAxes(chart, group, x, y, innerWidth);
    var line = d3.svg.line()
        .defined(function (p) { return !chart.is_log || p[1] > 0; })
        .x(function (p) { return x(p[0]).toFixed(1); }).y(function (p) { return y(p[1]).toFixed(1); });
    chart.series.forEach(function (series, i) {
      group.append('path').datum(series.points)
          .attr('class', series.is_emphasized ? 'line series emphasized' : 'line series')
          .attr('data-series', series.name).style('stroke', color(chart, i)).attr('d', line)
          .append('title').text(series.name);
    });
  }

  function drawBars(chart, group, innerWidth) {
    var x = d3.scale.ordinal().domain(chart.categories).rangeRoundBands([0, innerWidth], 0.25);
    var y = d3.scale.linear().range([innerHeight, 0]).domain(yDomain(chart));
    drawAxes(chart, group, x, y, innerWidth);
    var isStacked = chart.kind === 'stacked_bars';
    var barWidth = x.rangeBand() / (isStacked ? 1 : chart.series.length);
    var base = chart.categories.map(function () { return 0; });
    chart.series.forEach(function (series, i) {
      var bars = group.append('g').attr('class', 'series').attr('data-series', series.name);
      series.points.forEach(function (point) {
        var category = point[0], from = isStacked ? base[category] : 0;
        bars.append('rect').attr('x', x(chart.categories[category]) + (isStacked ? 0 : i * barWidth))
            .attr('width', Math.max(1, barWidth - 0.5)).attr('y', y(from + point[1]))
            .attr('height', y(from) - y(from + point[1])).style('fill', color(chart, i))
            .append('title')
            .text(series.name + ', ' + chart.categories[category] + ': ' + number(point[1]));
        base[category] += point[1];
      });
    });
  }

  function drawLegend(chart, box) {
    if (chart.series.length < 2 || chart.series.length > 12) return;
    var legend = box.append('div').attr('class', 'legend');
    chart.series.forEach(function (series, i) {
      var entry = legend.append('span');
      entry.append('i').style('background', color(chart, i));
      entry.append('b').style('font-weight', 'normal').text(series.name);
    });
  }

  // Draws into the d3 selection `box`, an element that becomes the chart's. Replaces what it has.
  // `width` of the drawing in pixels is optional.
  function draw(box, chart, width) {
    width = width || 560;
    var innerWidth = width - margin.left - margin.right;
    box.selectAll('*').remove();
    box.attr('class', 'chart').attr('id', chart.id);
    box.append('h2').text(chart.title);
    if (chart.note) box.append('p').text(chart.note);
    drawLegend(chart, box);
    var group = box.append('svg').attr('viewBox', '0 0 ' + width + ' ' + height)
        .attr('role', 'img').attr('aria-label', chart.title).append('g')
        .attr('transform', 'translate(' + margin.left + ',' + margin.top + ')');
    if (chart.kind === 'lines') drawLines(chart, group, innerWidth); else drawBars(chart, group, innerWidth);
  }

  return {color: function (index) { return palette[index % palette.length]; }, draw: draw, number: number};
})();
