"use strict";
// The widgets of a page: each finds its numbers in the JSON beside it. No network, no library.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 230, LEFT = 34, RIGHT = 10, TOP = 10, BOTTOM = 26;

  const make = (parent, tag, attributes = {}, text = "") => {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    parent.append(node);
    return node;
  };
  const path = (xs, ys) => xs.map((x, i) => `${i ? "L" : "M"}${x.toFixed(1)} ${ys[i].toFixed(1)}`).join("");
  const shown = (value) => (Math.abs(value) < 0.005 ? "0.00" : value.toFixed(2));

  // Time runs along a slider: observation, recognition factors and posterior at that time.
  const scrub = (root, data) => {
    const WIDTH = Math.min(900, Math.max(300, root.clientWidth - 26)); // so that letters keep their size on small screens
    const count = data.truth.length;
    const everything = data.views.flatMap((view) => view.mean.map((m, i) => [m - 2 * view.sd[i], m + 2 * view.sd[i]]).flat());
    const low = Math.min(...everything, ...data.truth), high = Math.max(...everything, ...data.truth);
    const across = (t) => LEFT + ((WIDTH - LEFT - RIGHT) * t) / (count - 1);
    const up = (v) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (v - low)) / (high - low);
    let chosen = 0, now = 0, timer = 0;

    if (data.views.length > 1) {
      const set = make(root, "fieldset");
      make(set, "legend", {}, data.choice);
      data.views.forEach((view, i) => {
        const label = make(set, "label");
        const radio = make(label, "input", { type: "radio", name: root.id + "-view", value: i });
        radio.checked = i === 0;
        label.append(" " + view.name);
        radio.addEventListener("change", () => { chosen = i; draw(); });
      });
    }
    const strips = data.observations.map((each) => {
      make(root, "div", { class: "soft" }, each.name);
      const strip = make(root, "div", { class: "strip", "aria-hidden": "true" });
      return each.rows[0].map(() => make(strip, "div"));
    });
    const svg = make(root, "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": data.alt });
    const gap = make(svg, "rect", { class: "gap", y: TOP, height: HEIGHT - TOP - BOTTOM, x: 0, width: 0 });
    make(svg, "path", { class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` });
    for (let value = Math.ceil(low); value <= high; value++) make(svg, "text", { x: 8, y: up(value) + 4 }, value.toFixed(0));
    make(svg, "text", { x: WIDTH / 2, y: HEIGHT - 6 }, "time");
    const band = make(svg, "path", { class: "band" });
    const times = data.truth.map((_, t) => across(t));
    make(svg, "path", { class: "truth", d: path(times, data.truth.map(up)) });
    const line = make(svg, "path", { class: "posterior" });
    const cursor = make(svg, "line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM });
    const bars = data.factors.map(() => [make(svg, "line", { class: "factor" }), make(svg, "circle", { class: "factor-dot", r: 4 })]);

    const key = make(root, "div", { class: "soft" });
    for (const [style, label] of [["solid var(--one)", "posterior and its 90 % band"], ["dashed var(--ink)", "truth"], ["solid var(--two)", "recognition factor now ± 1.6 sd"]]) {
      make(key, "span", { class: "key", style: `border-top: 3px ${style}` });
      key.append(label + "  ");
    }
    const controls = make(root, "div", { class: "controls" });
    const play = make(controls, "button", { type: "button" }, "Play");
    const slider = make(controls, "input", { type: "range", min: 0, max: count - 1, step: 1, value: 0, "aria-label": "time" });
    const said = make(controls, "output", { "aria-live": "polite" });

    const off = (number) => {
      const view = data.views[chosen];
      return Boolean(view.gap) && now >= view.gap[0] && now < view.gap[1] && view.without.includes(number);
    };
    const moment = () => {
      data.observations.forEach((each, o) => each.rows[now].forEach((value, i) => {
        const missing = value === null || off(o);
        const share = missing ? 0 : Math.min(1, Math.max(0, (value - each.low) / (each.high - each.low)));
        strips[o][i].style.background = missing
          ? "repeating-linear-gradient(45deg, var(--line) 0 4px, transparent 4px 8px)"
          : `rgb(${Array(3).fill(Math.round(255 * share)).join(" ")})`;
      }));
      cursor.setAttribute("x1", across(now)); cursor.setAttribute("x2", across(now));
      data.factors.forEach((each, i) => {
        const [bar, dot] = bars[i], mean = each.mean[now], sd = each.sd[now], hidden = mean === null || off(i);
        const x = across(now) + 7 * (i + 1);
        for (const node of bars[i]) node.style.display = hidden ? "none" : "";
        if (hidden) return;
        const clip = (v) => up(Math.min(high, Math.max(low, v)));
        bar.setAttribute("x1", x); bar.setAttribute("x2", x);
        bar.setAttribute("y1", clip(mean - 1.645 * sd)); bar.setAttribute("y2", clip(mean + 1.645 * sd));
        dot.setAttribute("cx", x); dot.setAttribute("cy", clip(mean));
      });
      const view = data.views[chosen];
      said.textContent = `time ${now}: posterior ${shown(view.mean[now])} ± ${shown(1.645 * view.sd[now])}, truth ${shown(data.truth[now])}`;
    };
    const draw = () => {
      const view = data.views[chosen];
      const upper = view.mean.map((m, t) => up(m + 1.645 * view.sd[t])), lower = view.mean.map((m, t) => up(m - 1.645 * view.sd[t]));
      band.setAttribute("d", path(times.concat([...times].reverse()), upper.concat([...lower].reverse())) + "Z");
      line.setAttribute("d", path(times, view.mean.map(up)));
      const [from, to] = view.gap || [0, 0];
      gap.setAttribute("x", across(from)); gap.setAttribute("width", view.gap ? across(to) - across(from) : 0);
      moment();
    };
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    slider.addEventListener("input", () => { now = Number(slider.value); moment(); });
    play.addEventListener("click", () => {
      if (timer) return stop();
      play.textContent = "Pause";
      timer = setInterval(() => { now = (now + 1) % count; slider.value = now; moment(); }, 120);
    });
    draw();
  };

  // An image cut into patches: point at one, or go there with the arrow keys.
  const mosaic = (root, data) => {
    const box = make(root, "div", { class: "mosaic" });
    make(box, "img", { src: data.image, alt: data.alt });
    const grid = make(box, "div", { class: "patches", role: "group", "aria-label": "patches; arrow keys move between them" });
    grid.style.gridTemplate = `repeat(${data.rows}, 1fr) / repeat(${data.columns}, 1fr)`;
    const controls = make(root, "div", { class: "controls" });
    const label = make(controls, "label");
    const colour = make(label, "input", { type: "checkbox" });
    label.append(" colour the patches by category");
    const said = make(controls, "output", { "aria-live": "polite" });
    said.textContent = "Point at a patch, or press an arrow key on it.";
    const tell = (i) => {
      const best = data.probabilities[i].indexOf(Math.max(...data.probabilities[i]));
      said.textContent = `row ${Math.floor(i / data.columns) + 1}, column ${(i % data.columns) + 1}: category ${best + 1} ` +
        `(${data.names[best]}), probability ${shown(data.probabilities[i][best])}; truly ${data.names[data.truth[i]]}`;
    };
    const hues = ["#0b62a8", "#b3470c", "#2b7d3f", "#7a3fa0", "#8a6d00", "#a11d4f"];
    const buttons = data.probabilities.map((each, i) => {
      const button = make(grid, "button", { type: "button", tabindex: i ? -1 : 0, "aria-label": `patch ${i + 1}` });
      button.addEventListener("pointerenter", () => tell(i));
      button.addEventListener("focus", () => tell(i));
      button.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: data.columns, ArrowUp: -data.columns }[event.key];
        if (step === undefined) return;
        event.preventDefault();
        const next = buttons[i + step];
        if (next) { button.tabIndex = -1; next.tabIndex = 0; next.focus(); }
      });
      return button;
    });
    colour.addEventListener("change", () => buttons.forEach((button, i) => {
      const best = data.probabilities[i].indexOf(Math.max(...data.probabilities[i]));
      button.style.background = colour.checked ? hues[best % hues.length] + "99" : "transparent";
    }));
  };

  // Paths and points in space: drag to turn, or move the sliders.
  const space = (root, data) => {
    const WIDTH = Math.min(640, Math.max(300, root.clientWidth - 26)), TALL = Math.min(460, 0.8 * WIDTH), MARGIN = 30;
    const complete = data.paths.map((each) => ({ ...each, points: each.points.filter((p) => !p.includes(null)) }));
    const every = complete.flatMap((each) => each.points);
    const middle = [0, 1, 2].map((k) => every.reduce((sum, p) => sum + p[k], 0) / Math.max(1, every.length));
    const far = Math.max(1e-9, ...every.map((p) => Math.hypot(...p.map((v, k) => v - middle[k]))));
    const size = (Math.min(WIDTH, TALL) / 2 - MARGIN) / far;
    const hidden = data.groups.map(() => false);
    let turn = 30, tilt = 20, trials = true, timer = 0;
    // Across and up the screen, and towards the eye; the third latent stands upright.
    const seen = (point) => {
      const [a, b] = [(turn * Math.PI) / 180, (tilt * Math.PI) / 180];
      const [x, y, z] = point.map((v, k) => (v - middle[k]) * size);
      const [across, deep] = [x * Math.cos(a) - y * Math.sin(a), x * Math.sin(a) + y * Math.cos(a)];
      return [WIDTH / 2 + across, TALL / 2 - z * Math.cos(b) - deep * Math.sin(b), z * Math.sin(b) - deep * Math.cos(b)];
    };
    const svg = make(root, "svg", { viewBox: `0 0 ${WIDTH} ${TALL}`, class: "plot space", role: "img", "aria-label": data.alt });
    const arms = data.names.map((name) => [make(svg, "path", { class: "axis" }), make(svg, "text", { "text-anchor": "middle" }, name)]);
    const lines = complete.map((each) => {
      const colour = data.groups[each.group].colour, single = each.points.length === 1;
      const look = single
        ? { fill: colour, "fill-opacity": each.bold ? 1 : 0.6, r: each.bold ? 6 : 2.5, stroke: each.bold ? "var(--ink)" : "none" }
        : { fill: "none", stroke: colour, "stroke-width": each.bold ? 3 : 0.8, "stroke-opacity": each.bold ? 1 : 0.5, "stroke-linejoin": "round" };
      return make(svg, single ? "circle" : "path", look);
    });
    const draw = () => {
      arms.forEach(([arm, text], k) => {
        const ends = [-1, 1].map((side) => seen(middle.map((v, j) => v + (j === k ? side * far : 0))));
        arm.setAttribute("d", path(ends.map((p) => p[0]), ends.map((p) => p[1])));
        text.setAttribute("x", Math.min(WIDTH - MARGIN, Math.max(MARGIN, ends[1][0])));
        text.setAttribute("y", Math.min(TALL - 4, Math.max(12, ends[1][1] - 4)));
      });
      const depth = complete.map((each, i) => {
        const places = each.points.map(seen), node = lines[i];
        node.style.display = hidden[each.group] || (!each.bold && !trials) || !places.length ? "none" : "";
        if (node.tagName === "circle") {
          node.setAttribute("cx", places[0][0].toFixed(1)); node.setAttribute("cy", places[0][1].toFixed(1));
        } else node.setAttribute("d", path(places.map((p) => p[0]), places.map((p) => p[1])));
        return places.reduce((sum, p) => sum + p[2], 0) / Math.max(1, places.length) + (each.bold ? 1e6 : 0);
      });
      complete.map((_, i) => i).sort((i, j) => depth[i] - depth[j]).forEach((i) => svg.append(lines[i]));
    };
    const controls = make(root, "div", { class: "controls" });
    const play = make(controls, "button", { type: "button" }, "Turn");
    const slide = (name, low, high, value, moved) => {
      const label = make(controls, "label", { class: "slide" }, name + " ");
      const slider = make(label, "input", { type: "range", min: low, max: high, step: 1, value });
      slider.addEventListener("input", () => { moved(Number(slider.value)); draw(); });
      return slider;
    };
    const turns = slide("around", -180, 180, turn, (value) => { turn = value; });
    const tilts = slide("tilt", -90, 90, tilt, (value) => { tilt = value; });
    const to = (around, up) => {
      turn = ((((around + 180) % 360) + 360) % 360) - 180; tilt = Math.min(90, Math.max(-90, up));
      turns.value = turn; tilts.value = tilt;
      draw();
    };
    play.addEventListener("click", () => {
      if (timer) { clearInterval(timer); timer = 0; play.textContent = "Turn"; return; }
      play.textContent = "Stop";
      timer = setInterval(() => to(turn + 1.5, tilt), 40);
    });
    let held = null;
    svg.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY, turn, tilt]; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => { if (held) to(held[2] + (event.clientX - held[0]) / 2, held[3] + (event.clientY - held[1]) / 2); });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { held = null; });
    const choices = make(root, "div", { class: "controls" });
    const choice = (text, colour, changed) => {
      const label = make(choices, "label");
      const box = make(label, "input", { type: "checkbox" });
      box.checked = true;
      if (colour) make(label, "span", { class: "key", style: `border-top-color: ${colour}` });
      label.append(" " + text);
      box.addEventListener("change", () => { changed(box.checked); draw(); });
    };
    data.groups.forEach((each, i) => choice(each.name, each.colour, (on) => { hidden[i] = !on; }));
    choice("single trials", "", (on) => { trials = on; });
    make(root, "div", { class: "soft" }, data.alt + ".");
    draw();
  };

  const kinds = { scrub, mosaic, space };
  document.querySelectorAll("[data-widget]").forEach((root, i) => {
    root.id = root.id || `widget-${i}`;
    kinds[root.dataset.widget](root, JSON.parse(root.querySelector("script").textContent));
  });
})();
