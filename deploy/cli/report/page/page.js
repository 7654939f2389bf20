// Fills the page from the JSON in #content, a ChartPageContent of deploy/cli/report/chart_page.h.
(function () {
  'use strict';
  var content = JSON.parse(document.getElementById('content').textContent);
  document.title = content.title;
  d3.select('h1').text(content.title);
  d3.select('#subtitle').text(content.subtitle);
  if (content.warning) d3.select('#warning').text(content.warning); else d3.select('#warning').remove();
  var facts = d3.select('.facts').selectAll('div').data(content.facts).enter().append('div');
  facts.append('span').text(function (fact) { return fact[0]; });
  facts.append('b').text(function (fact) { return fact[1]; });
  content.charts.forEach(function (chart) {
    CapstanCharts.draw(d3.select('.charts').append('div'), chart);
  });
})();
