// Flame graphs. The page draws the widest frames. The compressed data next to them has all, and replaces the drawing
// as soon as it is in sight. Numbers read as in package display, and titles as in view_flame.go.
const fixed = (v, digits) => {
  const t = v * 10 ** digits;
  // Go rounds a tie to the even digit.
  if (t % 1 === 0.5 && Number.isInteger(v * 2 ** (digits + 1))) return (2 * Math.round(t / 2) / 10 ** digits).toFixed(digits);
  return v.toFixed(digits);
};
const number = (v) => {
  if (v === Math.trunc(v) && v < 1e15) return String(v);
  return v < 0.01 && v > 0 ? String(parseFloat(v.toPrecision(2))) : fixed(v, 2);
};
const amount = (v, unit) => {
  if (unit !== "bytes") return number(v);
  if (v >= 1023.995 * 2 ** 20) return fixed(v / 2 ** 30, 2) + " GiB";
  if (v >= 1023.95 * 2 ** 10) return fixed(v / 2 ** 20, 2) + " MiB";
  if (v >= 1023.995) return fixed(v / 2 ** 10, 1) + " KiB";
  return number(v) + " B";
};
const delta = (v, unit) => {
  const s = amount(Math.abs(v), unit);
  if (/^[0.]*$/.test(s.split(" ")[0])) return s;
  return (v < 0 ? "\u2212" : "+") + s;
};
const exactly = (v, unit) => delta(v, unit) + (unit === "bytes" && Math.abs(v) >= 1024 ? " (" + v + " B)" : "");
const perOperation = (v, unit) => {
  const a = Math.abs(v);
  if (unit === "bytes") return delta(a < 1024 ? Math.sign(v) * Math.round(a) : v, unit);
  if (a < 1e-4) return "0";
  if (a < 0.01) return delta(v, unit);
  return (v < 0 ? "\u2212" : "+") + fixed(a, 2);
};
const ofAllChange = (width, whole) => {
  const share = 100 * width / Math.max(whole, 1);
  return (width > 0 && share < 0.05 ? "< 0.1" : fixed(share, 1)) + " % of all change";
};
const plural = (n, noun) => n + " " + noun + (n === 1 ? "" : "s");

const grewFill = ["#fbe3df", "#f7c4bc", "#f09c90", "#e8796b"];
const shrankFill = ["#e1ebf8", "#bfd6f2", "#93b9e8", "#6d9fdd"];
const neutralFill = "#e4e5e3";
const moduleFill = ["#f7c9a8", "#a8dbe8", "#cfe8a9", "#dcc0f0", "#f3e2a0", "#b9c6f5", "#f2bcd8", "#a9e0c3"];
const rowHeight = 19;
const mostBoxes = 2500;

const files = new Map();
const allFrames = (template) => {
  if (!files.has(template)) {
    files.set(template, (async () => {
      const bytes = Uint8Array.from(atob(template.content.textContent.trim()), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
      const file = JSON.parse(await new Response(stream).text());
      file.marked = new Set(file.p);
      file.stacks = file.l.map((flat) => {
        const list = [];
        let last = [];
        for (let i = 0; i < flat.length;) {
          const shared = flat[i++];
          const more = flat[i++];
          last = last.slice(0, shared).concat(flat.slice(i, i + more));
          i += more;
          list.push([last, flat[i++]]);
        }
        return list;
      });
      return file;
    })());
  }
  return files.get(template);
};

const newNode = (fn, state, up) => ({ fn, state, up, own: 0, total: 0, from: 0, to: 0, width: 0, kids: new Map() });
const addTo = (n, from, to) => {
  n.from += from;
  n.to += to;
  n.total += to - from;
  n.width += Math.abs(to - from);
};
const into = (file, n, fn, state) => {
  const key = state * file.f.length + fn;
  let kid = n.kids.get(key);
  if (!kid) n.kids.set(key, kid = newNode(fn, state, n));
  return kid;
};
const sortKids = (file, root) => {
  const word = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  const todo = [root];
  while (todo.length > 0) {
    const n = todo.pop();
    n.kids = [...n.kids.values()].sort((a, b) => b.width - a.width || word(file.f[a.fn], file.f[b.fn]) || word(file.s[a.state], file.s[b.state]));
    todo.push(...n.kids);
  }
  return root;
};
const eachStack = (file, metric, keep, visit) => {
  const m = file.v[metric];
  file.stacks[m.l].forEach(([frames, state], i) => {
    const [from, to] = [m.a[2 * i], m.a[2 * i + 1]];
    if (keep(from, to)) visit(frames, state, from, to);
  });
};
// The stacks of a metric as a tree of callers and callees, outermost first.
const callTree = (file, metric, keep) => {
  const root = newNode(-1, 0, null);
  eachStack(file, metric, keep, (frames, state, from, to) => {
    let n = root;
    addTo(n, from, to);
    frames.forEach((fn, i) => {
      n = into(file, n, fn, i === frames.length - 1 ? state : 0);
      addTo(n, from, to);
    });
    n.own += to - from;
  });
  return sortKids(file, root);
};
// The callers and the callees of one function, over all stacks. A recursive function counts once, at its outermost
// call.
const aroundFunction = (file, metric, keep, fn) => {
  const [callers, callees] = [newNode(fn, 0, null), newNode(fn, 0, null)];
  eachStack(file, metric, keep, (frames, state, from, to) => {
    const at = frames.indexOf(fn);
    if (at < 0) return;
    let n = callers;
    addTo(n, from, to);
    for (let i = at - 1; i >= 0; i--) addTo(n = into(file, n, frames[i], 0), from, to);
    n = callees;
    addTo(n, from, to);
    for (let i = at + 1; i < frames.length; i++) addTo(n = into(file, n, frames[i], i === frames.length - 1 ? state : 0), from, to);
    n.own += to - from;
  });
  return [sortKids(file, callers), sortKids(file, callees)];
};

const kept = [() => true, (from, to) => from === 0 && to !== 0, (from, to) => from !== 0 && to === 0];

const flame = (box, file) => {
  const id = box.parentElement.previousElementSibling.htmlFor;
  const [metric, view] = id.split("-").slice(-2).map(Number);
  const { u: unit, n: operations } = file.v[metric];
  const root = callTree(file, metric, kept[view]);
  const svg = box.querySelector("svg");
  const whole = root.width;
  let boxes = [];
  let zoomed = { node: root };
  let around = null; // the function whose callers and callees are in sight
  let current = null;
  let byModule = false;
  let hits = []; // functions that match the search
  let matches = []; // of the search: the outermost frames, widest first
  let match = -1;

  // What a person sees and uses.
  const says = make("p", "", "Click a frame to zoom in. By keyboard: arrows move, Enter zooms in, Escape zooms out.");
  says.setAttribute("aria-live", "polite");
  const link = make("a", "", "Link to this frame");
  const sandwich = button("Callers and callees", () => showAround(current.chain[current.chain.length - 1].fn));
  const actions = make("p", "frame-actions");
  actions.append(sandwich, link);
  actions.hidden = true;
  const at = make("div", "at-frame");
  at.append(says, actions);
  const out = button("Zoom out", () => zoom({ node: root }));
  out.hidden = true;
  const search = make("input");
  search.type = "search";
  search.placeholder = "Find a function";
  search.setAttribute("aria-label", "Find a function in this flame graph");
  const found = make("output");
  const next = button("Next", () => step(1));
  next.hidden = true;
  const colour = make("select", "tool");
  colour.setAttribute("aria-label", "Colour of the frames");
  colour.append(make("option", "", "Colour by change"), make("option", "", "Colour by module"));
  colour.addEventListener("change", () => {
    byModule = colour.selectedIndex === 1;
    legend.hidden = !byModule;
    draw();
  });
  const legend = make("p", "small muted modules-key");
  legend.hidden = true;
  const tools = make("div", "flame-tools");
  tools.append(search, found, next, out, colour, button("Save as SVG", save));
  box.before(tools, legend);
  box.after(at);
  svg.classList.add("zoomable");

  // Colours of modules: the standard library is grey, the modules with the most change get a colour each.
  const fills = new Map();
  {
    const widths = new Map();
    eachStack(file, metric, kept[view], (frames, state, from, to) => {
      for (const m of new Set(frames.map((fn) => file.o[fn]))) widths.set(m, (widths.get(m) ?? 0) + Math.abs(to - from));
    });
    const order = [...widths].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([m]) => m).filter((m) => file.m[m] !== "standard library");
    order.slice(0, moduleFill.length).forEach((m, i) => {
      fills.set(m, moduleFill[i]);
      legend.append(swatch(moduleFill[i]), " " + file.m[m] + " \u00a0 ");
    });
    legend.append(swatch(neutralFill), order.length > moduleFill.length ? " standard library, and " + plural(order.length - moduleFill.length, "other module") : " standard library");
  }
  function swatch(fill) {
    const key = document.createElementNS(svg.namespaceURI, "svg");
    key.setAttribute("class", "key");
    key.setAttribute("width", "14");
    key.setAttribute("height", "14");
    key.setAttribute("aria-hidden", "true");
    const rect = document.createElementNS(svg.namespaceURI, "rect");
    rect.setAttribute("fill", fill);
    rect.setAttribute("width", "14");
    rect.setAttribute("height", "14");
    key.append(rect);
    return key;
  }

  // Numbers and names of frames
  const named = (n) => n.fn < 0 ? "all stacks" : file.f[n.fn];
  const stated = (n, name) => name + (n.state ? " [" + file.s[n.state] + "]" : "");
  const short = (n) => {
    const name = named(n);
    const open = name.indexOf("[");
    const head = open < 0 ? name : name.slice(0, open);
    return stated(n, (file.marked.has(n.fn) ? "\u25c6 " : "") + head.slice(head.lastIndexOf("/") + 1) + (open < 0 ? "" : name.slice(open)));
  };
  const marked = (n) => n.fn >= 0 && file.marked.has(n.fn);
  const same = (a, b) => a.width === b.width && a.total === b.total && a.from === b.from && a.to === b.to;
  const fill = (n) => {
    if (byModule) return n.fn < 0 ? neutralFill : fills.get(file.o[n.fn]) ?? neutralFill;
    if (Math.abs(n.total) <= 0.05 * n.width) return neutralFill;
    const ramp = n.total < 0 ? shrankFill : grewFill;
    return ramp[Math.min(Math.trunc(Math.sqrt(Math.abs(n.total) / Math.max(whole, 1)) * ramp.length), ramp.length - 1)];
  };
  const title = (chain) => {
    const n = chain[chain.length - 1];
    const lines = chain.map((c) => stated(c, named(c)));
    if (marked(n)) lines.push("the fingerprint stands here");
    const moved = n.from === 0 ? "new" : n.to === 0 ? "vanished" : unsigned(n.from) + " \u2192 " + unsigned(n.to);
    lines.push("total " + exactly(n.total, unit) + ", " + moved + ", " + ofAllChange(n.width, whole));
    if (operations > 0) lines.push(perOperation(n.total / operations, unit) + " per operation on average");
    let own = "own " + (n.own === 0 ? "0" : exactly(n.own, unit));
    if (chain.length > 1 && n.own !== 0) own += ", of the last";
    lines.push(own);
    return lines.join("\n");
  };
  const unsigned = (v) => amount(v, unit);

  // Layout. A box is one frame, or several below each other with the same numbers, or narrow frames side by side.
  const continues = (n, next) => n.fn >= 0 && !marked(n) && n.own === 0 && !marked(next) && same(n, next) && !(byModule && file.o[n.fn] !== file.o[next.fn]);
  const sum = (list) => list.reduce((s, n) => s + n.width, 0);
  function threshold(tops, scope) {
    let least = Math.max(Math.ceil(scope * 0.001), 1);
    const widths = [];
    const todo = [...tops];
    while (todo.length > 0) {
      const n = todo.pop();
      if (n.width < least) continue;
      widths.push(n.width);
      todo.push(...n.kids);
    }
    if (widths.length > mostBoxes) {
      widths.sort((a, b) => b - a);
      least = widths[mostBoxes] + 1;
    }
    return least;
  }
  function place(n, x, row, scope, least, up) {
    const chain = [n];
    let last = n;
    let shown = last.kids.filter((k) => k.width >= least);
    const narrow = () => last.kids.slice(shown.length).filter((k) => k.width > 0);
    while (shown.length === 1 && !up && narrow().length === 0 && continues(last, shown[0])) {
      chain.push(last = shown[0]);
      shown = last.kids.filter((k) => k.width >= least);
    }
    boxes.push({ chain, x, w: n.width / scope * 100, row, rows: chain.length, up });
    children(last, shown, narrow(), x, up ? row - 1 : row + chain.length, scope, least, up);
  }
  function children(parent, shown, narrow, x, row, scope, least, up) {
    for (const k of shown) {
      place(k, x, row, scope, least, up);
      x += k.width / scope * 100;
    }
    const lost = sum(narrow);
    if (lost < scope * 0.001) return;
    const parts = narrow.length > 200 ? Math.max(1, Math.min(20, Math.floor(lost / scope * 100))) : 1;
    for (let from = 0, part = 1; part <= parts && from < narrow.length; part++) {
      let to = from;
      for (let width = 0; to < narrow.length && (part === parts || width < lost / parts); to++) width += narrow[to].width;
      const list = narrow.slice(from, to);
      boxes.push({ chain: [], list, parent, x, w: sum(list) / scope * 100, row, rows: 1, up });
      x += sum(list) / scope * 100;
      from = to;
    }
  }
  function layout() {
    boxes = [];
    if (around !== null) {
      const [callers, callees] = aroundFunction(file, metric, kept[view], around);
      if (callers.width === 0) return;
      const least = threshold(callers.kids, callers.width);
      children(callers, callers.kids.filter((k) => k.width >= least), callers.kids.filter((k) => k.width < least && k.width > 0), 0, -1, callers.width, least, true);
      place(callees, 0, 0, callees.width, threshold([callees], callees.width), false);
      const first = Math.min(...boxes.map((b) => b.row));
      boxes.forEach((b) => { b.row -= first; });
      return;
    }
    const { node, list } = zoomed;
    const path = [];
    for (let n = list ? node : node.up; n; n = n.up) path.unshift(n);
    let row = 0;
    for (let i = 0; i < path.length;) {
      const chain = [path[i++]];
      while (i < path.length && continues(chain[chain.length - 1], path[i])) chain.push(path[i++]);
      boxes.push({ chain, x: 0, w: 100, row, rows: chain.length, above: true });
      row += chain.length;
    }
    if (list) {
      const scope = sum(list);
      const least = threshold(list, scope);
      children(node, list.filter((k) => k.width >= least), list.filter((k) => k.width < least && k.width > 0), 0, row, scope, least, false);
    } else {
      place(node, 0, row, node.width, threshold([node], node.width), false);
    }
  }
  const rounded = (v) => Math.round(v * 1000) / 1000 + "%";
  function element(b) {
    const make = (name, attributes, text) => {
      const e = document.createElementNS(svg.namespaceURI, name);
      for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
      if (text) e.textContent = text;
      return e;
    };
    const n = b.chain[0];
    const group = b.list && "\u2026 " + plural(b.list.length, "narrower frame");
    b.text = n ? title(b.chain) : group + " with their callees: click to see them\ntotal " + exactly(b.list.reduce((s, k) => s + k.total, 0), unit) + ", " + ofAllChange(sum(b.list), whole);
    const hit = n ? b.chain.some((c) => hits[c.fn]) : b.list.some((k) => k.hits);
    b.e = make("svg", { x: rounded(b.x), y: b.row * rowHeight, width: rounded(b.w) });
    b.e.setAttribute("class", [n && marked(n) && "fp", b.above && "above", matches.length > 0 && (hit ? "hit" : "out")].filter(Boolean).join(" "));
    b.e.append(make("title", {}, b.text), make("rect", { fill: n ? fill(n) : neutralFill, width: "100%", height: b.rows * rowHeight - 1 }));
    if (n && marked(n)) b.e.lastChild.setAttribute("stroke", "#1d2024");
    if (b.w / 100 * (svg.clientWidth || 1000) > 36) {
      (n ? b.chain.map(short) : [group]).forEach((text, i) => b.e.append(make("text", { x: 4, y: 13 + rowHeight * i }, text)));
    }
    return b.e;
  }
  function draw() {
    layout();
    svg.setAttribute("height", Math.max(...boxes.map((b) => b.row + b.rows), 1) * rowHeight);
    svg.replaceChildren(...boxes.map(element));
  }

  // Moves
  function choose(b) {
    if (!b) return;
    current?.e?.classList.remove("on");
    current = b;
    b.e.classList.add("on");
    says.textContent = b.text;
    const n = b.chain[b.chain.length - 1];
    actions.hidden = !n || n.fn < 0;
    if (actions.hidden) return;
    link.href = "#" + id + ":" + (around === null ? pathOf(n) : "~" + encodeURIComponent(named(n)));
  }
  function zoom(to) {
    zoomed = to;
    around = null;
    out.textContent = "Zoom out";
    out.hidden = to.node === root && !to.list;
    draw();
    choose(boxes.find((b) => !b.above && (to.list || b.chain[0] === to.node)) ?? boxes[0]);
  }
  function showAround(fn) {
    around = fn;
    out.textContent = "Back to the graph";
    out.hidden = false;
    draw();
    choose(boxes.find((b) => !b.up && b.chain[0]?.fn === fn));
    says.textContent = "Callers above, callees below\n" + says.textContent;
  }
  function open(b) {
    if (b.list && around === null) return zoom({ node: b.parent, list: b.list });
    if (b.list) return choose(b);
    if (around !== null) return showAround(b.chain[0].fn);
    zoom(b.chain[0] === zoomed.node && !zoomed.list ? { node: root } : { node: b.chain[0] });
  }
  const pathOf = (n) => {
    const path = [];
    for (; n.up; n = n.up) path.unshift(n.up.kids.indexOf(n));
    return path.join(".");
  };
  function find() {
    const q = search.value.trim().toLowerCase();
    hits = file.f.map((name) => q !== "" && name.toLowerCase().includes(q));
    let [frames, width, total] = [0, 0, 0];
    matches = [];
    match = -1;
    const visit = (n, inside) => {
      const hit = n.fn >= 0 && hits[n.fn];
      if (hit && n.width > 0) {
        frames++;
        if (!inside) {
          width += n.width;
          total += n.total;
          matches.push(n);
        }
      }
      n.hits = hit;
      for (const k of n.kids) n.hits = visit(k, inside || hit) || n.hits;
      return n.hits;
    };
    visit(root, false);
    matches.sort((a, b) => b.width - a.width);
    found.textContent = q === "" ? "" : frames === 0 ? "not found" : delta(total, unit) + ", " + ofAllChange(width, whole) + ", " + plural(frames, "frame");
    next.hidden = matches.length === 0;
    draw();
  }
  function step(by) {
    match = (match + by + matches.length) % matches.length;
    zoom({ node: matches[match] });
  }
  function save() {
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", svg.namespaceURI);
    copy.setAttribute("width", "1200");
    const a = make("a");
    a.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
    a.download = "flame.svg";
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 1000);
  }
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    if (file.f.length < 2000) return find();
    typing = setTimeout(find, 150);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length > 0) step(event.shiftKey ? -1 : 1);
  });
  svg.addEventListener("click", (event) => {
    const b = boxes.find((b) => b.e.contains(event.target));
    if (b) open(b);
  });
  const end = (b) => b.x + b.w + 0.002;
  const within = (a, b) => a.x >= b.x - 0.002 && a.x + a.w <= end(b);
  const nearest = (list) => list.sort((a, b) => Math.abs(a.x - current.x) - Math.abs(b.x - current.x))[0];
  const beside = (b) => b !== current && b.row <= current.row && b.row + b.rows > current.row;
  const moves = {
    ArrowUp: () => choose(nearest(boxes.filter((b) => b.row + b.rows === current.row && (within(current, b) || within(b, current))))),
    ArrowDown: () => choose(nearest(boxes.filter((b) => b.row === current.row + current.rows && (within(b, current) || within(current, b))))),
    ArrowLeft: () => choose(nearest(boxes.filter((b) => beside(b) && b.x < current.x))),
    ArrowRight: () => choose(nearest(boxes.filter((b) => beside(b) && b.x > current.x))),
    Enter: () => open(current),
    Escape: () => zoom({ node: root }),
  };
  box.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });

  draw();
  current = boxes[0];
  // The names in the table of functions lead to their callers and callees.
  if (view === 0) {
    const panel = box.closest(".views").parentElement;
    panel.querySelectorAll(":scope > .numbers tbody th code").forEach((code) => {
      const fn = file.f.indexOf(code.textContent);
      if (fn < 0) return;
      const b = make("button", "", code.textContent);
      b.type = "button";
      b.title = "Callers and callees";
      b.addEventListener("click", () => {
        document.getElementById(id).checked = true;
        showAround(fn);
        box.scrollIntoView({ block: "nearest" });
        box.focus({ preventScroll: true });
      });
      code.replaceChildren(b);
    });
  }
  return (place) => {
    if (place.startsWith("~")) return showAround(file.f.indexOf(decodeURIComponent(place.slice(1))));
    let n = root;
    for (const i of place.split(".").filter(Boolean)) n = n.kids[i] ?? n;
    zoom({ node: n });
  };
};

const graphs = new Map(); // by the id of their radio button
const start = (box) => {
  const id = box.parentElement.previousElementSibling.htmlFor;
  if (!graphs.has(id)) {
    const template = box.closest(".flames").querySelector("template.all-frames");
    graphs.set(id, template ? allFrames(template).then((file) => flame(box, file), () => () => {}) : Promise.resolve(() => {}));
  }
  return graphs.get(id);
};
const inSight = new IntersectionObserver((entries) => {
  for (const e of entries.filter((e) => e.isIntersecting)) {
    inSight.unobserve(e.target);
    start(e.target);
  }
}, { rootMargin: "200px" });
document.querySelectorAll(".flame-box").forEach((box) => inSight.observe(box));

// A link to a frame: #flame1-0-0:0.2.1 is a path of callees, #flame1-0-0:~NAME a function with callers and callees.
const follow = async () => {
  const [id, place] = location.hash.slice(1).split(/:(.*)/s);
  const input = place !== undefined && document.getElementById(id);
  const box = input && input.nextElementSibling?.nextElementSibling?.querySelector(".flame-box");
  if (!box) return;
  for (let e = box; e; e = e.parentElement) {
    if (e.localName === "details") e.open = true;
    if (e.classList.contains("panel")) e.previousElementSibling.previousElementSibling.checked = true;
  }
  (await start(box))(place);
  box.scrollIntoView({ block: "center" });
};
addEventListener("hashchange", follow);
follow();
