// Background jobs of the client with live progress. Hidden if the service runs none.
import { address, json, request } from "./api.js";
import { announce, byId, count, fill, h, label, plural } from "./dom.js";
import { listen } from "./events.js";

const OVER = ["done", "failed", "cancelled"];
/** Maximum number of jobs whose events are followed; the others are polled. */
const FOLLOWED = 4;
const PAUSE = 5000;
/** Number of jobs that one request lists. */
const PAGE = 25;
/** Number of inputs that are shown of a job. */
const INPUTS = 3;

export class Jobs {
  /** @param {(error) => void} failed shows a problem */
  constructor(failed) {
    this.failed = failed;
    this.jobs = new Map();
    /** Requests of jobs, which never change. */
    this.requests = new Map();
    this.followed = new Map();
    this.most = PAGE;
    this.form = byId("job-form");
    this.filter = byId("job-filter");
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.start(); });
    this.filter.addEventListener("submit", (event) => { event.preventDefault(); this.refresh(); });
    this.filter.addEventListener("change", () => this.refresh());
    byId("jobs-refresh").addEventListener("click", () => this.refresh());
    byId("jobs-more").addEventListener("click", () => { this.most += PAGE; this.refresh(); });
  }

  /** Stops following while the jobs are not shown. */
  rest() {
    clearTimeout(this.later);
    for (const stop of this.followed.values()) stop.abort();
  }

  /** Returns the parameters of the list: those of the filters that are set. */
  parameters() {
    const data = new FormData(this.filter);
    const chosen = [...data].map(([name, value]) => [name, String(value).trim()]).filter(([, value]) => value);
    return { ...Object.fromEntries(chosen), limit: Math.min(this.most, 1000) };
  }

  async refresh() {
    clearTimeout(this.later);
    try {
      const listed = await json(address("jobs", this.parameters()));
      this.jobs = new Map(listed.map((job) => [String(job.id), { ...this.jobs.get(String(job.id)), ...job }]));
      byId("jobs-more").hidden = listed.length < this.most;
      this.draw();
      this.follow();
      this.later = setTimeout(() => this.refresh(), [...this.jobs.values()].some((job) => !OVER.includes(job.state)) ? PAUSE : 6 * PAUSE);
      await this.readRequests();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Reads what each listed job was asked to do. */
  async readRequests() {
    for (const id of this.jobs.keys()) {
      if (this.requests.has(id)) continue;
      const job = await json(address(`jobs/${encodeURIComponent(id)}`)).catch(() => null);
      if (!job) continue;
      const { inputs = [], lists = [], stac = [] } = job.request ?? {};
      this.requests.set(id, { inputs: [inputs, lists, stac].flat().map(String) });
      this.draw();
    }
  }

  async start() {
    const data = new FormData(this.form);
    const list = (name, by) => String(data.get(name) ?? "").split(by).map((text) => text.trim()).filter(Boolean);
    const inputs = list("inputs", /\n/);
    if (!inputs.length) return this.wrong("Give at least one input.", this.form.elements.inputs);
    const body = { kind: data.get("kind"), inputs, concat_dim: list("concat_dim", ","), stack_dim: list("stack_dim", ","), format: data.get("format") };
    const output = String(data.get("output") ?? "").trim();
    if (output) body.output = output;
    const labels = list("labels", ",").map((text) => text.split(/:(.*)/s).map((part) => part.trim()));
    if (labels.some(([name, value]) => !name || value === undefined)) return this.wrong("Give labels as key:value, separated by commas.", this.form.elements.labels);
    if (labels.length) body.labels = Object.fromEntries(labels.map(([name, value]) => [name, value]));
    try {
      const { id } = await json(address("jobs"), { method: "POST", body });
      this.wrong("");
      announce(`Job ${id} started`);
      await this.refresh();
    } catch (error) {
      this.wrong([error.message, error.hint].filter(Boolean).join(" "), this.form.elements.inputs);
    }
    return undefined;
  }

  wrong(text, input) {
    fill(byId("job-error"), text);
    for (const each of this.form.elements) each.removeAttribute("aria-invalid");
    if (!text) return;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  follow() {
    for (const job of this.jobs.values()) {
      const id = String(job.id);
      if (OVER.includes(job.state) || this.followed.has(id) || this.followed.size >= FOLLOWED) continue;
      const stop = new AbortController();
      this.followed.set(id, stop);
      const heard = ({ data }) => this.heard(id, data);
      listen(address(`jobs/${encodeURIComponent(id)}/events`), heard, stop.signal)
        .catch(() => {}) // The job is requested again in any case.
        .finally(() => { this.followed.delete(id); if (!stop.signal.aborted) this.one(id); });
    }
  }

  /** Handles an event, whose data is a job as in `GET /v1/jobs/{id}`, or a part of it. */
  heard(id, data) {
    try {
      const job = this.jobs.get(id);
      if (!job) return;
      const said = JSON.parse(data);
      if (said.state && said.state !== job.state) announce(`Job ${id}: ${said.state}`);
      Object.assign(job, said, { id: job.id });
      this.draw();
    } catch {
      // An event of another type.
    }
  }

  async one(id) {
    try {
      const job = await json(address(`jobs/${encodeURIComponent(id)}`));
      if (!this.jobs.has(id)) return;
      this.jobs.set(id, job);
      this.draw();
    } catch {
      // The job may have been removed.
    }
  }

  /** Cancels a job, or removes an ended one. */
  async cancel(id) {
    if (OVER.includes(this.jobs.get(id)?.state) && !confirm(`Remove job ${id} and its result?`)) return;
    try {
      await request(address(`jobs/${encodeURIComponent(id)}`), { method: "DELETE" });
      await this.refresh();
    } catch (error) {
      this.failed(error);
    }
  }

  draw() {
    const had = document.activeElement?.dataset?.job;
    const rows = [...this.jobs.values()].map((job) => this.row(job));
    fill(byId("job-list"), rows.length ? rows : h("tr", {}, h("td", { colSpan: 7, class: "mute" }, Object.keys(this.parameters()).length > 1 ? "No job matches." : "No jobs yet.")));
    if (had) byId("job-list").querySelector(`[data-job="${CSS.escape(had)}"]`)?.focus();
  }

  row(job) {
    const id = String(job.id);
    const labels = Object.entries(job.labels ?? {}).map(([name, value]) => h("span", { class: "mark" }, label(`${name}: ${value}`)));
    const isOver = OVER.includes(job.state);
    return h("tr", { "data-id": id },
      h("th", { scope: "row" }, h("div", {}, job.kind), h("code", { class: "mute" }, id), labels.length ? h("div", { class: "labels" }, labels) : null),
      h("td", {}, h("span", { class: `mark state-${job.state}` }, job.state), job.error ? h("div", { class: "error" }, words(job.error)) : null),
      h("td", {}, this.inputs(id)),
      h("td", {}, progress(job.progress)), h("td", {}, when(job.created)), h("td", { class: "number" }, duration(job)),
      h("td", {}, isOver ? links(job.result) : null, h("button", { type: "button", class: "quiet", "data-job": id, "aria-label": `${isOver ? "Remove" : "Cancel"} job ${id}`, onclick: () => this.cancel(id) }, isOver ? "Remove" : "Cancel")));
  }

  inputs(id) {
    const { inputs } = this.requests.get(id) ?? {};
    if (!inputs) return "";
    return [inputs.slice(0, INPUTS).map((input) => h("div", {}, h("code", { title: input }, label(input.slice(0, 300))))),
      inputs.length > INPUTS ? h("div", { class: "mute" }, `and ${plural(inputs.length - INPUTS, "more input")}`) : null];
  }
}

const words = (error) => (typeof error === "string" ? error : error.detail ?? error.title ?? JSON.stringify(error));

function progress(of) {
  if (!of) return "";
  const read = (of.read ?? 0) + (of.failed ?? 0);
  const total = of.total ?? of.listed ?? 0;
  const text = `${count(read)} of ${count(total)}${of.failed ? `, ${count(of.failed)} failed` : ""}`;
  return [h("progress", { max: Math.max(1, total), value: read, "aria-label": text }), h("span", { class: "mute" }, ` ${text}`)];
}

function instant(text) {
  const date = new Date(typeof text === "number" && text < 1e12 ? text * 1000 : text);
  return text && !Number.isNaN(date.getTime()) ? date : null;
}

function when(created) {
  const date = instant(created);
  return date ? h("time", { dateTime: date.toISOString() }, date.toISOString().slice(0, 19).replace("T", " ")) : String(created ?? "");
}

/** Returns how long a job has run: "42 s", "3 min 5 s", "2 h 10 min". */
function duration({ started, ended }) {
  const from = instant(started);
  if (!from) return "";
  const seconds = Math.max(0, Math.round(((instant(ended) ?? new Date()) - from) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${count(Math.floor(seconds / 3600))} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** Shows results: `links` by name, or a list. Only web addresses become links. */
function links(result) {
  if (!result?.links) return null;
  const named = Array.isArray(result.links) ? result.links.map((link) => [link.title ?? link.rel ?? link.href ?? link, link.href ?? link]) : Object.entries(result.links);
  return named.map(([name, href]) => {
    const url = new URL(String(href), document.baseURI);
    const fetched = url.origin === location.origin;
    return h("div", {}, fetched ? h("a", { href: url.href }, label(name)) : h("code", {}, label(href)));
  });
}
