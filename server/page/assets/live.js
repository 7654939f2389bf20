// Keeps the page up to date. Texts of the job's processes are shown with textContent alone.
(function () {
  'use strict';
  var interval = 1000, patience = 4000;  // milliseconds
  var longestCourse = 600;  // points in a line; then every second one goes
  var mostShards = 1024;
  var course = {begin: null, samples: []};  // what the charts show
  var before = null;  // the status of the last poll
  var isFirst = true, timer = null, answeredAt = null;
  var polls = 0;  // an answer to an older one than the latest does not count

  function element(id) { return document.getElementById(id); }
  function show(id, isShown) { element(id).hidden = !isShown; }
  function setText(node, text) { if (node.textContent !== text) node.textContent = text; }

  function count(value) { return Math.round(value).toLocaleString('en-US'); }
  function bytes(value) {
    var units = ['B', 'kB', 'MB', 'GB', 'TB'], unit = 0;
    while (value >= 999.95 && unit + 1 < units.length) { value /= 1000; ++unit; }
    return (unit === 0 ? String(value) : value.toFixed(1)) + ' ' + units[unit];
  }
  function lossText(loss, samples) {
    if (!samples) return '';
    return loss === null ? 'not finite' : loss.toFixed(4);
  }
  function share(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(0) + ' %' : ''; }
  function ratio(floats, sent) {
    if (!sent || !floats) return '';
    var times = floats / sent;
    return times > 1.05 ? times.toFixed(1) + 'x smaller' : times < 0.95 ? (1 / times).toFixed(1) + 'x larger' : 'no smaller';
  }
  function sum(rows, of) { return rows.reduce(function (total, row) { return total + (of(row) || 0); }, 0); }

  // Makes `body` have these rows. A cell is a text, or {text, kind}.
  function fillTable(body, rows) {
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach(function (cells, i) {
      var row = body.rows[i] || body.insertRow();
      cells.forEach(function (cell, j) {
        var node = row.cells[j] || row.insertCell();
        setText(node, typeof cell === 'object' ? cell.text : cell);
        node.className = typeof cell === 'object' ? cell.kind : '';
      });
    });
  }
  function numeric(text) { return {text: String(text), kind: 'number'}; }
  function isFinished(worker) { return worker.steps_total > 0 && worker.steps_done >= worker.steps_total; }
  function isLost(worker) { return !worker.is_live && !isFinished(worker); }
  function state(member) {
    if (isLost(member)) return {text: member.holds_place ? 'lost; its place is held' : 'lost', kind: 'lost'};
    if (!member.is_live) return {text: 'done', kind: ''};
    return {text: member.is_entering ? 'taking a lost one\'s place' : 'live', kind: ''};
  }

  // Over the worker's own time since the last poll; over all its time once it has finished.
  function rates(worker) {
    var earlier = before && before.workers[worker.worker];
    if (!earlier || isFinished(worker) || worker.steps_done < earlier.steps_done) {
      earlier = {seconds: 0, steps_done: 0, samples: 0};
    }
    var seconds = worker.seconds - earlier.seconds;
    if (seconds <= 0) return worker.rates || {steps: 0, samples: 0};
    return {steps: (worker.steps_done - earlier.steps_done) / seconds,
            samples: (worker.samples - earlier.samples) / seconds};
  }
  // Exchanges of a server a second, over its own time since the last poll.
  function exchangeRate(server, earlier) {
    if (!earlier || server.exchanges < earlier.exchanges) earlier = {seconds: 0, exchanges: 0, rate: 0};
    if (server.seconds <= earlier.seconds) return earlier.rate;
    return (server.exchanges - earlier.exchanges) / (server.seconds - earlier.seconds);
  }
  // Without a new report the rates stay.
  function addRates(status) {
    status.servers.forEach(function (server) {
      server.rate = exchangeRate(server, before && before.servers[server.server]);
    });
    status.workers.forEach(function (worker) {
      var earlier = before && before.workers[worker.worker];
      if (earlier && earlier.seconds === worker.seconds) worker.rates = earlier.rates;
      worker.rates = rates(worker);
    });
  }

  function meanLoss(status) {
    var rows = status.workers.filter(function (w) { return w.is_live && w.samples > 0; });
    var isFinite = rows.every(function (w) { return w.loss !== null; });
    return rows.length === 0 ? '' : isFinite ? (sum(rows, function (w) { return w.loss; }) / rows.length).toFixed(4) : 'not finite';
  }
  function memberText(members, expected) {
    return members.filter(function (m) { return m.is_live; }).length + ' of ' + expected;
  }
  function phaseText(status) {
    if (status.phase === 'REGISTERING') return status.measures_links ? 'measuring links' : 'waiting for members';
    return {PLACING: 'placing shards', SAVING: 'saving the model'}[status.phase] || status.phase.toLowerCase();
  }
  function checkpointText(checkpoint) {
    if (!checkpoint) return '';
    var text = !checkpoint.dir ? '' : checkpoint.newest ? 'step ' + checkpoint.step + ', ' + checkpoint.newest
                                                        : 'none yet in ' + checkpoint.dir;
    if (checkpoint.restored) text += (text && '; ') + 'went on from step ' + checkpoint.restored_step + ', ' + checkpoint.restored;
    if (checkpoint.error) text += '; the last attempt has failed: ' + checkpoint.error;
    return text;
  }
  function tuningText(tuning) {
    if (!tuning) return '';
    var text = 'partition ' + bytes(tuning.partition_bytes) + ', credit ' + bytes(tuning.credit_bytes);
    if (tuning.step_seconds) text += ', ' + (1000 * tuning.step_seconds).toFixed(1) + ' ms a step';
    return tuning.has_ended ? text + (tuning.reason && '; ' + tuning.reason)
                            : tuning.tried + ' tried' + (tuning.tried ? ', the last: ' + text : '');
  }
  function codecText(status) {
    var all = status.workers.concat(status.replaced_workers);
    function of(name) { return sum(all, function (w) { return w[name]; }); }
    var text = status.codec;
    var pushed = ratio(of('float_bytes_pushed'), of('bytes_pushed'));
    if (pushed) text += '; pushed ' + pushed;
    var pulled = ratio(of('float_bytes_pulled'), of('bytes_pulled'));
    if (pulled) text += ', pulled ' + pulled;
    if (of('gradient_squares') > 0) {
      text += ', residual ' + Math.sqrt(of('residual_squares') / of('gradient_squares')).toPrecision(3) + ' of the gradient';
    }
    return text;
  }

  // "52 of 64, 890.0 MB left to copy". Empty: all shards have two copies.
  function oneCopyText(copies) {
    if (!copies || copies.one_copy.length === 0) return '';
    var left = copies.bytes_to_copy - copies.bytes_copied;
    return copies.one_copy.length + ' of ' + copies.server_of_shard.length +
        (left > 0 ? ', ' + bytes(left) + ' left to copy' : '');
  }

  function facts(status) {
    var done = sum(status.workers, function (w) { return w.steps_done; });
    var total = sum(status.workers, function (w) { return w.steps_total; });
    var least = d3.min(status.workers.filter(function (w) { return w.is_live; }), function (w) { return w.steps_done; });
    var lostWorkers = status.workers.filter(isLost).length;
    var replaced = status.replaced_workers.length;
    var periods = status.consistency;
    var rows = [
      ['progress', 'progress', total > 0 ? (100 * done / total).toFixed(1) + ' %' : least > 0 ? 'step ' + least : '', false],
      ['loss', 'loss, mean', meanLoss(status), false],
      ['samples-rate', 'samples/s', count(sum(status.workers, function (w) { return w.is_live ? w.rates.samples : 0; })), false],
      ['live-workers', 'workers live', memberText(status.workers, status.num_workers), false],
      ['live-servers', 'servers live', memberText(status.servers, status.num_servers), false],
      ['consistency-now', 'consistency', periods.length ? periods[periods.length - 1].text + (status.is_changing ? '; a change is being agreed on' : '') : '', false],
      ['lost', 'workers lost', String(lostWorkers + replaced), false],
      ['replaced', 'workers replaced', String(replaced), false],
      ['lost-servers', 'servers lost', String(status.servers_lost), false],
      ['replaced-servers', 'servers replaced', status.copies ? String(status.servers_replaced) : '', false],
      ['one-copy', 'shards with one copy', oneCopyText(status.copies), false],
      ['rounds', 'rounds', status.rounds || '', true],
      ['place-replacements', 'replaced', (status.place_replacements || []).slice(-3).join('. '), true],
      ['checkpoint', 'checkpoint', checkpointText(status.checkpoint), true],
      ['copies', 'copies', status.copies ? status.copies.text : '', true],
      ['links', 'links', status.links || '', true],
      ['tuning', 'tuning', tuningText(status.tuning), true],
      ['codec', 'codecs', status.codec ? codecText(status) : '', true],
      ['auto-codecs', 'codecs, chosen', status.auto_codecs || '', true],
    ];
    return rows.filter(function (row) { return row[2] !== ''; });
  }
  function fillFacts(status) {
    var list = element('facts'), rows = facts(status);
    while (list.children.length > rows.length) list.removeChild(list.lastChild);
    rows.forEach(function (row, i) {
      var box = list.children[i];
      if (!box) {
        box = list.appendChild(document.createElement('div'));
        box.appendChild(document.createElement('dt'));
        box.appendChild(document.createElement('dd'));
      }
      box.className = row[3] ? 'long' : '';
      setText(box.children[0], row[1]);
      box.children[1].id = row[0];
      setText(box.children[1], row[2]);
    });
  }

  function fillWorkers(status) {
    fillTable(element('workers'), status.workers.map(function (w) {
      var computing = w.seconds - w.seconds_waiting - w.seconds_sending;
      return ['worker ' + w.worker, state(w), numeric(w.steps_done + (w.steps_total > 0 ? ' / ' + w.steps_total : '')),
              numeric(lossText(w.loss, w.samples)), numeric(w.rates.steps.toFixed(1)), numeric(count(w.rates.samples)),
              numeric(w.steps_ahead), numeric((w.mean_staleness_seen || 0).toFixed(2)), numeric(w.max_staleness_seen),
              numeric(share(Math.max(0, computing), w.seconds)), numeric(share(w.seconds_waiting, w.seconds)),
              numeric(share(w.seconds_sending, w.seconds)), numeric(share(w.seconds_coding, w.seconds)),
              numeric(w.queued_transfers),
              numeric(bytes(w.bytes_pushed)), numeric(bytes(w.bytes_pulled))];
    }));
  }

  function fillServers(status) {
    var shards = {}, total = sum(status.servers, function (s) { return s.rate; });
    status.server_of_shard.forEach(function (server) { shards[server] = (shards[server] || 0) + 1; });
    fillTable(element('servers'), status.servers.map(function (s) {
      return ['server ' + s.server, s.address, state(s), numeric(shards[s.server] || 0), numeric(bytes(s.bytes)),
              numeric(count(s.exchanges)), numeric(count(s.rate)), numeric(share(s.rate, total))];
    }));
    fillLosses(status.server_losses || []);
    fillShards(status.server_of_shard, status.copies || {server_of_shard: [], one_copy: []});
  }
  function fillLosses(losses) {
    show('losses-view', losses.length > 0);
    fillTable(element('losses'), losses.map(function (loss) {
      var areWhole = loss.seconds_until_whole !== null;
      return ['server ' + loss.server, count(loss.seconds_ago) + ' s ago', loss.what, numeric(loss.shards_moved),
              areWhole ? 'after ' + loss.seconds_until_whole.toFixed(1) + ' s'
                       : {text: 'some have one copy', kind: 'lost'}];
    }));
  }
  function fillShards(serverOfShard, copies) {
    var box = element('shards'), shown = serverOfShard.slice(0, mostShards);
    setText(element('shards-note'), serverOfShard.length === 0 ? 'Shards are not placed yet.'
        : 'Each of the ' + serverOfShard.length + ' shards, from 0 on, with the number of its server.' +
          (copies.one_copy.length > 0 ? ' Bold ones have one copy only.' : '') +
          (shown.length < serverOfShard.length ? ' The first ' + shown.length + ' are shown.' : ''));
    while (box.children.length > shown.length) box.removeChild(box.lastChild);
    shown.forEach(function (server, i) {
      var cell = box.children[i] || box.appendChild(document.createElement('span'));
      setText(cell, String(server));
      var hasOneCopy = copies.one_copy.indexOf(i) >= 0;
      cell.title = 'shard ' + i + ': server ' + server + (hasOneCopy ? ', one copy only'
          : i < copies.server_of_shard.length ? ', its copy: server ' + copies.server_of_shard[i] : '');
      cell.className = hasOneCopy ? 'lost' : '';
      cell.style.borderBottomColor = CapstanCharts.color(server);
    });
  }

  function fillConsistency(status) {
    fillTable(element('periods'), status.consistency.map(function (period) {
      return [numeric(period.first_step), period.text];
    }));
    setText(element('right'), status.may_operate ? '' : 'Your token may look. To change this, log in with one that may operate.');
    if (!isFirst || status.consistency.length === 0) return;
    var newest = status.consistency[status.consistency.length - 1];
    element('mode').value = newest.mode.toLowerCase();
    element('staleness').value = newest.staleness;
    isFirst = false;
  }

  function remember(status) {
    if (!status.workers.some(function (w) { return w.steps_done > 0; })) return;
    var now = performance.now() / 1000;
    if (course.begin === null) course.begin = now;
    course.samples.push({seconds: now - course.begin, workers: status.workers.map(function (w) {
      return {steps_done: w.steps_done, loss: w.loss, samples: w.samples, rates: w.rates};
    })});
    if (course.samples.length > longestCourse) course.samples = course.samples.filter(function (unused, i) { return i % 2 === 0; });
  }
  function workerLines(status, value) {
    return status.workers.map(function (worker) {
      var points = [];
      course.samples.forEach(function (sample) {
        var then = sample.workers[worker.worker];
        if (then && then.steps_done > 0 && value(then) !== null) points.push([sample.seconds, value(then)]);
      });
      return {name: 'worker ' + worker.worker, points: points};
    }).filter(function (line) { return line.points.length > 0; });
  }
  function workerBars(status, values) {
    return Object.keys(values).map(function (name) {
      return {name: name, points: status.workers.map(function (w, i) { return [i, Math.max(0, values[name](w) || 0)]; })};
    });
  }
  function stalenessChart(status) {
    var counts = [];
    status.workers.forEach(function (w) {
      w.replies_of_staleness.forEach(function (n, i) { counts[i] = (counts[i] || 0) + n; });
    });
    var total = d3.sum(counts);
    return {kind: 'bars', id: 'chart-staleness', title: 'Staleness of the values',
            x_label: 'steps by which the slowest worker was behind the pull', y_label: 'share of the replies, %',
            categories: counts.map(function (unused, i) { return String(i); }),
            series: [{name: 'replies', points: counts.map(function (n, i) { return [i, total ? 100 * n / total : 0]; })}]};
  }
  function charts(status) {
    var workers = status.workers.map(function (w) { return String(w.worker); });
    return [
      {kind: 'lines', id: 'chart-loss', title: 'Loss', x_label: 'time, s', y_label: 'loss',
       series: workerLines(status, function (w) { return w.loss; })},
      {kind: 'lines', id: 'chart-steps', title: 'Steps of each worker', x_label: 'time, s', y_label: 'steps done',
       series: workerLines(status, function (w) { return w.steps_done; })},
      {kind: 'lines', id: 'chart-rate', title: 'Rate of each worker', x_label: 'time, s', y_label: 'steps/s',
       series: workerLines(status, function (w) { return w.rates.steps; })},
      stalenessChart(status),
      {kind: 'stacked_bars', id: 'chart-time', title: 'Where each worker\'s time went', x_label: 'worker', y_label: 'time, s',
       categories: workers, series: workerBars(status, {
         'compute': function (w) { return w.seconds - w.seconds_waiting - w.seconds_sending; },
         'waiting for values': function (w) { return w.seconds_waiting; },
         'sending': function (w) { return w.seconds_sending; }})},
      {kind: 'bars', id: 'chart-servers', title: 'Parameters of each server', x_label: 'server', y_label: 'kB',
       categories: status.servers.map(function (s) { return String(s.server); }),
       series: [{name: 'bytes', points: status.servers.map(function (s, i) { return [i, s.bytes / 1000]; })}]},
    ];
  }
  function drawCharts(status) {
    var box = element('charts');
    if (course.samples.length === 0 || document.hidden) return;
    charts(status).forEach(function (chart, i) {
      var child = box.children[i] || box.appendChild(document.createElement('div'));
      CapstanCharts.draw(d3.select(child), chart, Math.max(300, Math.min(720, child.clientWidth)));
    });
  }

  function fillLog(lines) {
    var log = element('log'), isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    setText(log, lines.join('\n'));
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  function notice(text) {
    setText(element('notice'), text);
    show('notice', text !== '');
  }
  function absenceText() {
    if (!before || !before.term) return 'The coordinator does not answer. The job may have ended; the last numbers are below.';
    return 'The coordinator has not answered since ' + answeredAt.toLocaleTimeString() + '; the last numbers are below. If the ' +
        'job has not ended, training goes on, for ' + before.coordinator_seconds + ' s at most. Until a coordinator is back, nobody ' +
        'can join, lost servers and workers are not replaced, and no checkpoint or change of consistency begins.';
  }
  function showStatus(status) {
    addRates(status);
    document.title = status.job + ': ' + phaseText(status);
    setText(element('job'), status.job);
    setText(element('phase'), phaseText(status));
    notice(status.reason ? 'The job has failed: ' + status.reason : '');
    show('login', false);
    show('logout', status.has_login);
    show('job-view', true);
    answeredAt = new Date();
    fillFacts(status);
    fillConsistency(status);
    fillWorkers(status);
    fillServers(status);
    fillLog(status.log);
    remember(status);
    drawCharts(status);
    before = status;
    document.body.dataset.polls = Number(document.body.dataset.polls || 0) + 1;
  }
  function askForToken() {
    if (!element('login').hidden) return;
    notice('');
    show('job-view', false);
    show('logout', false);
    show('login', true);
    ['facts', 'workers', 'servers', 'losses', 'shards', 'periods', 'log'].forEach(function (id) { setText(element(id), ''); });
    before = null;
    isFirst = true;
    course = {begin: null, samples: []};
    element('token').focus();
  }

  function request(path, options) {
    var cut = new AbortController();
    var timeout = setTimeout(function () { cut.abort(); }, options.patience || patience);
    options.signal = cut.signal;
    options.cache = 'no-store';
    return fetch(path, options).finally(function () { clearTimeout(timeout); });
  }
  function poll() {
    var number = ++polls;
    clearTimeout(timer);
    request('status.json', {}).then(function (answer) {
      if (number !== polls) return;
      if (answer.status === 401) return askForToken();
      if (!answer.ok) return answer.text().then(notice);
      return answer.json().then(function (status) { if (number === polls) showStatus(status); });
    }).catch(function () {
      if (number !== polls) return;
      if (before === null || (before.phase !== 'DONE' && before.phase !== 'FAILED')) return notice(absenceText());
      if (!before.reason) notice('The job has ended. These are its last numbers.');
    }).finally(function () {
      clearTimeout(timer);  // of another poll that was under way
      timer = setTimeout(poll, interval);
    });
  }

  // Sends the form, and shows the answer in the element `answerId`.
  function post(path, fields, answerId) {
    setText(element(answerId), '');
    ++polls;  // what is on its way is older than this
    return request(path, {method: 'POST', body: new URLSearchParams(fields), patience: 10000})
        .then(function (answer) {
          return answer.text().then(function (text) {
            setText(element(answerId), text);
            poll();
            return answer.ok;
          });
        }).catch(function () { setText(element(answerId), 'The coordinator does not answer.'); });
  }
  element('login').addEventListener('submit', function (event) {
    event.preventDefault();
    var token = element('token').value;
    post('login', {token: token}, 'login-answer').then(function (isIn) {
      if (!isIn) return;
      element('token').value = '';
      setText(element('login-answer'), '');
    });
  });
  element('consistency').addEventListener('submit', function (event) {
    event.preventDefault();
    var button = event.target.querySelector('button');
    button.disabled = true;
    post('consistency', {mode: element('mode').value, staleness: element('staleness').value}, 'consistency-answer')
        .finally(function () { button.disabled = false; });
  });
  element('logout').addEventListener('click', function () { post('logout', {}, 'login-answer'); });
  poll();
})();
