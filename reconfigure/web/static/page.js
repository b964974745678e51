// The page works without this script. With it, it shows what is new without a reload, tells what a bar of the timeline is,
// and copies commands. It inserts texts as texts alone; the page itself comes escaped from the server.
'use strict';

const root = document.body.dataset.root;
let pulse = document.body.dataset.pulse;
let busy = false;
let again = false;

// refresh fetches this page, and replaces its main part if that differs. What has the focus keeps it.
async function refresh() {
  if (busy) { again = true; return; }
  const field = document.activeElement;
  if (field && field.matches('main input, main select')) { again = true; return; } // somebody types there
  busy = true;
  try {
    const answer = await fetch(location.href, { cache: 'no-store' });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    pulse = page.body.dataset.pulse;
    const opened = [...document.querySelectorAll('main details[open] summary')].map((s) => s.textContent);
    const place = field && field.closest('main') && field.getAttribute('href');
    const log = document.querySelector('.log');
    const bottom = !log || log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    const top = log ? log.scrollTop : 0;
    document.getElementById('main').replaceChildren(...page.getElementById('main').childNodes);
    document.querySelector('#foot span:nth-of-type(3)').replaceWith(page.querySelector('#foot span:nth-of-type(3)'));
    document.querySelector('#foot span:nth-of-type(2)').replaceWith(page.querySelector('#foot span:nth-of-type(2)'));
    for (const s of document.querySelectorAll('main details summary')) s.parentElement.open = opened.includes(s.textContent);
    if (place) for (const a of document.querySelectorAll('main a')) if (a.getAttribute('href') === place) { a.focus({ preventScroll: true }); break; }
    dress(bottom, top);
  } catch (e) { // the next event tries again
  } finally {
    setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, 1500); // at most one in this time
  }
}

// listen hears of news while somebody can see the page.
let events = null;
function listen() {
  if (events) events.close();
  const live = document.getElementById('live');
  live.hidden = true;
  if (document.hidden) return;
  events = new EventSource(root + 'events');
  events.onopen = () => { live.hidden = false; };
  events.onerror = () => { live.hidden = true; };
  events.onmessage = (e) => { if (e.data !== pulse) refresh(); };
}

// dress adds what only a script can do to the main part.
function dress(bottom, top) {
  const log = document.querySelector('.log');
  if (log) log.scrollTop = bottom ? log.scrollHeight : top;
  for (const line of document.querySelectorAll('.command')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(line.querySelector('code').textContent);
      button.textContent = 'Copied';
    });
    if (navigator.clipboard) line.append(' ', button);
  }
  hover();
}

// hover tells what a node was at the pointer, or, with the keyboard, at the end of the window.
function hover() {
  const chart = document.querySelector('.chart');
  const box = document.getElementById('hover');
  if (!chart || !box) return;
  const from = Date.parse(chart.dataset.from);
  const length = Date.parse(chart.dataset.to) - from;
  const rows = chart.querySelector('.rows');
  const groups = [...rows.querySelectorAll('g')];
  let asked = '';
  let waits = 0;
  const show = (node, share, x, y) => {
    const time = new Date(from + length * share).toISOString().replace(/\.\d+Z/, 'Z');
    const url = root + 'at?' + new URLSearchParams({ node, time, around: Math.ceil(length / 1000000) });
    if (url === asked) return;
    asked = url;
    clearTimeout(waits);
    waits = setTimeout(async () => {
      const answer = await fetch(url);
      if (!answer.ok || url !== asked) return;
      const said = await answer.json();
      const lines = [said.node].concat(said.lines).map((text) => {
        const p = document.createElement('p');
        p.textContent = text;
        return p;
      });
      box.replaceChildren(...lines);
      box.hidden = false;
      const at = box.getBoundingClientRect();
      // A script may set styles by the CSSOM, which the policy allows; it forbids the attribute in a page.
      box.style.left = Math.max(4, Math.min(x + 14, innerWidth - at.width - 8)) + 'px';
      box.style.top = Math.max(4, Math.min(y + 14, innerHeight - at.height - 8)) + 'px';
    }, 60);
  };
  const hide = () => { asked = ''; clearTimeout(waits); box.hidden = true; };
  rows.addEventListener('pointermove', (e) => {
    const at = rows.getBoundingClientRect();
    const i = Math.floor((e.clientY - at.top) / at.height * groups.length);
    if (groups[i]) show(groups[i].dataset.node, (e.clientX - at.left) / at.width, e.clientX, e.clientY);
  });
  rows.addEventListener('pointerleave', hide);
  const links = [...chart.querySelectorAll('.names a')];
  let share = 0.999;
  for (const [i, a] of links.entries()) {
    const tell = () => {
      const plot = rows.getBoundingClientRect();
      show(a.dataset.node, share, plot.left + plot.width * share, a.getBoundingClientRect().bottom);
    };
    a.addEventListener('focus', tell);
    a.addEventListener('blur', hide);
    a.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[e.key];
      const other = { ArrowUp: links[i - 1], ArrowDown: links[i + 1] }[e.key];
      if (step) { share = Math.max(0, Math.min(0.999, share + step)); tell(); } else if (other) other.focus();
      if (step || other) e.preventDefault();
      if (e.key === 'Escape') hide();
    });
  }
}

dress(true, 0);
listen();
document.addEventListener('visibilitychange', listen);
