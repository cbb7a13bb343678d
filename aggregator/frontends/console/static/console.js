// What the console does only with scripts.
(() => {
  "use strict";
  const body = document.body, base = body.dataset.base;
  const $ = (what, from = document) => from.querySelector(what);
  const all = (what) => [...document.querySelectorAll(what)];
  const on = (name, act) => body.addEventListener(name, act);
  let source, paused = false, lost = "", news = 0;

  // A live list; the stream is the extension's.
  const pane = () => $("[data-live]");
  const say = (text, live) => {
    const at = $("[data-state-text]");
    if (at) { at.textContent = text; at.parentElement.classList.toggle("is-ready", !!live); }
  };
  const tell = () => {
    const link = $("[data-news]");
    if (link) { link.hidden = !news; link.textContent = `${news.toLocaleString("en")} new. Show newest`; }
  };
  const reload = () => {
    news = 0;
    htmx.ajax("GET", pane().dataset.live, { target: pane(), swap: "outerHTML" });
  };
  const close = () => { source?.close(); source = null; };
  const pause = () => {
    paused = !paused;
    $("[data-pause]").ariaPressed = paused;
    if (paused) { close(); say("paused"); } else reload();
  };
  const held = () => pane().hasAttribute("data-held") || scrollY > 200 || $(".pane").scrollTop > 200
    || document.activeElement.closest("#rows");
  on("htmx:sseOpen", (event) => {
    if (source !== event.detail.source) close();
    source = event.detail.source;
    if (paused) { close(); return say("paused"); }
    if (lost) { lost = ""; return reload(); }
    say("live", true);
    source.addEventListener("rest", (told) => { news += +told.data; tell(); });
  });
  on("htmx:sseError", () => {
    if (paused || document.hidden) return;
    lost ||= new Date().toTimeString().slice(0, 5);
    say(`not live since ${lost}`);
  });
  on("htmx:sseBeforeMessage", (event) => {
    if (event.detail.type !== "rows" || !held()) return;
    event.preventDefault();
    news += event.detail.data.split("<tr").length - 1;
    tell();
  });
  on("htmx:sseMessage", () => {
    const known = {};
    all("#rows tr").forEach((row, at) => { if (at > 199 || known[row.id]) row.remove(); known[row.id] = 1; });
    $("[data-nothing]")?.remove();
  });
  document.addEventListener("visibilitychange", () => {
    if (paused || !pane()) return;
    if (document.hidden) close(); else if (!source) reload();
  });

  // How many calls wait: one tab asks, the others hear of it.
  const nav = $("#nav-approvals"), store = localStorage;
  let count = parseInt($(".count", nav || body)?.textContent) || 0;
  const ring = (told) => {
    if (store.bell !== "on" || !document.hidden || store.rung === told.id) return;
    store.rung = told.id;
    try {
      const sound = new AudioContext(), tone = sound.createOscillator(), loud = sound.createGain();
      loud.gain.value = 0.1;
      tone.connect(loud).connect(sound.destination);
      tone.start();
      tone.stop(sound.currentTime + 0.3);
      new Notification(`${told.agent} asks: ${told.tool}`);
    } catch { /* not allowed */ }
  };
  const waits = (told) => {
    if (told.count > count) ring(told);
    count = told.count;
    document.title = (count ? `(${count}) ` : "") + document.title.replace(/^\(\d+\) /, "");
    $(".count", nav)?.remove();
    if (!count) return;
    const mark = document.createElement("b");
    mark.className = "count";
    mark.textContent = count;
    nav.append(" ", mark);
  };
  if (nav) {
    const channel = new BroadcastChannel(`aggregator ${base}`);
    channel.onmessage = (event) => waits(event.data);
    const ask = () => {
      new EventSource(`${base}/live`).addEventListener("waiting", (event) => {
        const told = JSON.parse(event.data);
        waits(told);
        channel.postMessage(told);
      });
      return new Promise(() => {});
    };
    if (navigator.locks) navigator.locks.request(`aggregator ${base}`, ask); else ask();
    const bell = document.createElement("button");
    bell.className = "plain bell";
    bell.title = "Tell me when a call waits and this page is not in front";
    bell.textContent = "Bell";
    bell.ariaPressed = store.bell === "on";
    bell.onclick = () => {
      store.bell = store.bell === "on" ? "off" : "on";
      bell.ariaPressed = store.bell === "on";
      if (store.bell === "on") window.Notification?.requestPermission();
    };
    $(".top .me").prepend(bell);
  }

  const ready = () => {
    all("[data-copy], [data-pause]").forEach((button) => { button.hidden = false; });
    if (paused) $("[data-pause]").ariaPressed = true;
  };
  on("htmx:afterSettle", ready);
  on("click", (event) => {
    const button = event.target.closest("[data-copy], [data-pause]");
    if (!button) return;
    if (button.matches("[data-pause]")) return pause();
    navigator.clipboard.writeText(button.previousElementSibling.textContent)
      .then(() => { button.textContent = "Copied"; });
  });

  // None of the keys answers a question.
  const pages = { o: "", c: "calls", a: "approvals", t: "tools", p: "policies" };
  let went = 0;
  const move = (step) => {
    const links = all("#rows a.tool, .queue-list a, .r-name a");
    links[Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + step))]?.focus();
  };
  const keys = {
    "/": () => $("[data-search]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    g: () => { went = Date.now(); },
    " ": () => $("[data-pause]") && pause(),
    "?": () => $("#keys")?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    const typing = target.closest("input, textarea, select");
    if (key === "Escape") return typing ? target.blur() : $("[data-close]")?.click();
    if (typing || (key === " " && target.closest("a, button, summary"))) return;
    if (Date.now() - went < 1500 && key in pages) { location = `${base}/${pages[key]}`; return; }
    if (!(key in keys) || (key === " " && !$("[data-pause]"))) return;
    event.preventDefault();
    keys[key]();
  });
  ready();
})();
